"""Oracles that need no expectation: what must hold for every operator, whatever it is for.

A *variation* repeats a scenario with something else that must not matter, or that must be undone again:

- `restart`: the idle operator is restarted and reconciles everything again, after each change; or it only
  becomes idle before the next step; or the scenario is repeated in another Python process
- `round_trip`: a field of the spec is changed and changed back; an object is deleted and created again
- `repetition`: an object is applied again, or in two steps
- `inputs`: an object that the operator reads is changed, or created last
- `representations`: lists in pages, and objects in other versions
- `deletion`: everything that the scenario created is deleted, at its end or while the operator works on it
- `instances`: another object of the same kind is created and deleted; `collisions`: two of them, with names
  that are easily mistaken for each other
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
