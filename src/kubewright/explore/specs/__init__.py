"""Changes of every field of a spec.

- `spec_dependencies`: dependencies between fields: which fields have to change together
- `spec_derived`: values for texts of a spec that become something else: a name, a reference or a label of a
  child
- `spec_exploration`: `explore_specs`: change every field of a custom resource, and check that the operator
  handles it
- `spec_fields`: fields of a spec, and values to try for each: valid ones, the limits of the schema, and just
  beyond them
- `spec_trials`: trials: sequences of specs that are applied one after the other, in a run of their own
"""
