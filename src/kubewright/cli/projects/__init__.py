"""Commands that create, check and change the files of a project.

- `check`: `kubewright check`: checks the code of a project and its compatibility with a released version
- `crd_sources`: CustomResourceDefinitions for commands: from files, stdin or a cluster
- `create`: `kubewright create`: adds source files to a project
- `create_api`: `kubewright create api`: adds a kind with a controller and tests
- `create_apiserver`: `kubewright create apiserver`: adds a kind that an API server of the project serves
- `create_credential_plugin`: `kubewright create credential-plugin`: adds a credential plug-in of kubectl
- `create_kubectl_plugin`: `kubewright create kubectl-plugin`: adds a plug-in of kubectl
- `create_webhook`: `kubewright create webhook`: adds webhooks of a kind
- `docs`: `kubewright docs`: writes the API reference of a project
- `edit`: `kubewright edit`: changes the settings of a project
- `init`: `kubewright init`: creates a project
- `kind_options`: options of the commands that add a kind
- `manifests`: `kubewright manifests`: writes, prints or checks the manifests of a project
- `project_changes`: parts that the commands for projects share: find the project, generate manifests, print
  what was done
- `upgrade`: `kubewright upgrade`: merges the files of newer templates into a project
"""
