"""Exec and port-forward with the Python client: client.py KUBECONFIG NAMESPACE POD."""
import sys

from kubernetes import client, config
from kubernetes.stream import portforward, stream

kubeconfig, namespace, pod = sys.argv[1:]
config.load_kube_config(kubeconfig)
api = client.CoreV1Api()


def execute(*command, **options):
    return stream(
        api.connect_get_namespaced_pod_exec, pod, namespace, command=list(command),
        stderr=True, stdout=True, tty=False, **options)


printed = execute("/workload", "args", "one", "two words", stdin=False)
assert printed == "one\ntwo words\n", repr(printed)

# Standard output is apart from standard error, and the exit code comes last.
session = execute("/workload", "exit", "7", stdin=False, _preload_content=False)
session.run_forever(timeout=30)
assert session.returncode == 7, session.returncode

session = execute("/workload", "nonsense", stdin=False, _preload_content=False)
session.run_forever(timeout=30)
assert "unknown command" in session.read_stderr(), "no error was printed"
assert session.returncode == 2, session.returncode

forward = portforward(api.connect_get_namespaced_pod_portforward, pod, namespace, ports="8080")
connection = forward.socket(8080)
connection.settimeout(30)
connection.sendall(b"GET /from-python HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
answer = b""
while True:
    piece = connection.recv(1024)
    if not piece:
        break
    answer += piece
assert answer.startswith(b"HTTP/1.1 200"), answer
assert forward.error(8080) is None, forward.error(8080)

logs = api.read_namespaced_pod_log(pod, namespace)
assert "GET /from-python" in logs, logs
print("all went well")
