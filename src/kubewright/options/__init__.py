"""One model of options: fields of frozen dataclasses, from which flags and keys of a config file derive.

    @dataclass(frozen=True, kw_only=True)
    class ServingOptions:
        '''Serving: the address of the server.'''

        port: int | None = option(0, PORT, "Port to listen on.", name="port", flag="secure-port")

- `model`: what an option is, and how values of options become keyword arguments
- `kinds`: how the text of a flag becomes a value
- `config_file`: options in a YAML file

The modules import nothing that is slow to import: command lines are parsed before a server is imported.
"""
