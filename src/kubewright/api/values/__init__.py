"""Values in fields: quantities, times, names, schedules.

- `cron_schedules`: cron schedules as in CronJobs: five fields, descriptors such as `@hourly`, `@every 90s`,
  `TZ=` prefixes
- `go_format`: values formatted as a Go server prints them; clients and tests compare these messages
- `int_or_string`: `IntOrString`: an integer, or a string such as a percentage or the name of a port
- `names`: validation of names, and generated names
- `quantity`: quantities: amounts such as `500m`, `1.5Gi` or `2e3`, with exact arithmetic
- `raw_object`: `RawObject`: a field that contains an arbitrary JSON object
- `rfc3339`: parse RFC 3339 times with the error messages of Go's `time.Parse`
- `times`: times and durations in the formats of Kubernetes
"""
