"""Device plug-ins of kubelets, API version `v1beta1`.

    class SerialPorts(DevicePlugin):
        resource = "example.com/serial-port"

        async def devices(self) -> AsyncIterator[Iterable[Device]]:
            yield [Device("ttyUSB0"), Device("ttyUSB1")]

        async def allocate(self, ids: Sequence[str]) -> Allocation:
            return Allocation(devices=[DeviceSpec(container_path=f"/dev/{each}", ...) for each in ids])

Modules:

- `plugin`: `DevicePlugin`, the base class: registration, list of devices, allocation
- `messages`: messages and services of the API
"""
