"""Oracles that need no expectation: what must hold for every operator, whatever it is for.

A *variation* repeats a scenario with something else that must not matter, or that must be undone again:

- `restart`: the idle operator is restarted and reconciles everything again, after each change; or it only
  becomes idle before the next step
- `round_trip`: a field of the spec is changed and changed back; an object is deleted and created again
- `inputs`: a ConfigMap or Secret of the user is changed, deleted and created again, or created last
- `deletion`: everything that the scenario created is deleted
- `instances`: another object of the same kind is created and deleted
- `control`: nothing else happens; what differs is random or periodic, and is not compared
- `clock`: all clocks are ahead or behind, those of the control plane as well

A *default check* is evaluated in every run, and looks at states and requests:

- `default_checks`: all of them
- `status_checks`: what a status claims; `write_checks`: writes; `ownership_checks`: owners, deletion and
  namespaces
- `late_writes`: what a leader that was paused writes when it continues, although another one has taken over

Parts of both:

- `variation`: the interface of variations; `probe`: what they can do in a run; `catalogue`: all of them
- `history`: the states of a run, oldest first, and the writes that caused them
- `names`: the names with which a scenario or the command line switches them off
"""
