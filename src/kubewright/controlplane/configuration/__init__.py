"""Configuration of a control plane: values of options, files, feature gates, and their reload.

- `config_file`: configuration files of the control plane: one YAML document of the group
  `apiserver.config.k8s.io`
- `config_reload`: reload of configuration files: `ConfigReloader` applies a file again when its content
  changes
- `feature_gates`: feature gates of kube-apiserver v1.36: those that this server has a feature for, and all
  others
- `plane_options`: values of options of `ControlPlane`: how their texts are parsed, and what is checked
- `real_nodes`: a control plane for kubelets that join: the options that it implies
- `resource_settings`: settings of a control plane that change built-in resources: node ports, lifetime of
  events, metrics
- `runtime_config`: which built-in API versions are served: `--runtime-config` of kube-apiserver
"""
