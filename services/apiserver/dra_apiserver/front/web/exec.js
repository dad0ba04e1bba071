// A command in a container, over the API server's WebSocket: subprotocol v5.channel.k8s.io, as kubectl speaks it since 1.30.
//
// Each message begins with its channel: 0 input, 1 output, 2 errors, 3 how the command ended, 4 the terminal's size; 255
// closes a channel. Upstream: apimachinery/pkg/util/remotecommand/constants.go.

const PROTOCOL = "v5.channel.k8s.io";
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4];
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Runs a command on a terminal: `output(bytes)` takes what it prints, `ended(text)` how it ended, once.
 * Gives `{write(text), resize(columns, rows), close()}`.
 */
export function execute({ pod, container, command }, output, ended) {
  const [namespace, name] = pod.split("/");
  const query = new URLSearchParams({ container, stdin: "true", stdout: "true", tty: "true" });
  for (const word of command) query.append("command", word);
  const url = new URL(`/api/v1/namespaces/${namespace}/pods/${name}/exec?${query}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const socket = new WebSocket(url, [PROTOCOL]);
  socket.binaryType = "arraybuffer";
  let outcome;
  let opened = false;
  let size;
  const send = (channel, bytes) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.send(message);
  };
  const resize = (columns, rows) => {
    size = { Width: columns, Height: rows };
    send(RESIZE, encoder.encode(JSON.stringify(size)));
  };
  socket.onopen = () => {
    opened = true;
    if (size) resize(size.Width, size.Height);
  };
  socket.onmessage = ({ data }) => {
    const bytes = new Uint8Array(data);
    if (bytes[0] === STDOUT || bytes[0] === STDERR) output(bytes.subarray(1));
    else if (bytes[0] === STATUS) outcome = JSON.parse(decoder.decode(bytes.subarray(1)));
  };
  socket.onclose = ({ reason }) => ended(ending(outcome, opened, reason));
  return { write: (text) => send(STDIN, encoder.encode(text)), resize, close: () => socket.close() };
}

/** How a command ended, in words. A browser does not say why a server refused a WebSocket. */
function ending(outcome, opened, reason) {
  if (!outcome) return opened ? `the connection ended${reason ? `: ${reason}` : ""}` : reason || "the server refuses";
  if (outcome.status === "Success") return "ended with exit code 0";
  const code = (outcome.details?.causes ?? []).find((one) => one.reason === "ExitCode");
  return code ? `ended with exit code ${code.message}` : outcome.message;
}
