"""Streams of running pods: logs, exec, attach, port forwarding and file copies."""
