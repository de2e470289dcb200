"""Volumes of containers that are processes, as directories.

- `atomic_directory`: files that change together, as in volumes of ConfigMaps and Secrets
- `downward_api`: fields of a pod as values of variables and files (downward API)
- `volume_sources`: the files of volumes of ConfigMaps, Secrets, the downward API and service account tokens
- `volumes`: `PodVolumes`: the volumes of one pod as directories, which are updated with the objects they come
  from
"""
