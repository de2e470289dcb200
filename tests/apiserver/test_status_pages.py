"""`/statusz`, `/flagz`, `/metrics/slis` and the version document."""

from __future__ import annotations

import msgspec

from kubewright.apiserver import SYSTEM, HTTPRequest


async def test_text_pages_and_health_indicators(new_server):
    server = new_server()
    server.flags = {"audit-log-path": "audit.log"}
    async with server:

        async def get(path: str, accept: str = "text/plain"):
            request = HTTPRequest("GET", path, headers={"Accept": accept}, user=SYSTEM)
            response = await server.handle(request)
            return response.status, response.body.decode()

        status, text = await get("/statusz")
        assert status == 200
        assert text.startswith("kube-apiserver statusz\n")
        assert "Binary version: v1.37.0\n" in text
        status, text = await get("/flagz")
        assert status == 200
        assert "max-in-flight=400\n" in text
        assert "audit-log-path=audit.log\n" in text
        assert (await get("/flagz", "application/json"))[0] == 406
        assert (await get("/readyz"))[0] == 200
        status, text = await get("/metrics/slis")
        assert status == 200
        assert 'kubernetes_healthcheck{name="ping",type="readyz"} 1\n' in text
        assert 'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 1\n' in text
        status, text = await get("/version", "application/json")
        assert text.startswith('{\n  "major"')
        assert msgspec.json.decode(text)["gitVersion"] == "v1.37.0"
