// A push in the reader's language. Each sample runs as it is, once the topic exists.

export const codes = ['curl', 'PHP', 'Java', 'Node'] as const;
export type Language = (typeof codes)[number];

/** `server`: address of the API, without a path. */
export function sampleOf(code: Language, server: string): string {
  const url = `${server}/v1/topics/order.close/jobs?id=4711`;
  switch (code) {
    case 'curl':
      return `dq topic add order.close --callback http://10.0.0.8/close --delay 30m
curl -X POST '${url}' \\
  -H 'content-type: application/json' -d '{"order":4711}'`;
    case 'PHP':
      return `$reply = file_get_contents('${url}', false,
    stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'content-type: application/json',
        'content' => json_encode(['order' => 4711]),
        'timeout' => 10,
    ]]));`;
    case 'Java':
      return `var push = HttpRequest.newBuilder(URI.create("${url}"))
    .header("content-type", "application/json")
    .timeout(Duration.ofSeconds(10))
    .POST(BodyPublishers.ofString("{\\"order\\":4711}"))
    .build();
var reply = HttpClient.newHttpClient().send(push, BodyHandlers.ofString());`;
    case 'Node':
      return `const reply = await fetch('${url}', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ order: 4711 }),
  signal: AbortSignal.timeout(10_000),
});`;
  }
}
