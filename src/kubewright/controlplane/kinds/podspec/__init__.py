"""What every object that describes pods shares: the pod spec, its defaults and its rules.

`defaults` fills a spec in, `validation` judges one (with `containers`, `volumes`, `resources`, `scheduling`
and `security` for its parts), `template` does both for the templates of workloads. Errors carry Kubernetes'
words.
"""
