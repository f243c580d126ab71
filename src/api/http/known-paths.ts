// KnownPaths tells a wrong method on a known path (405) from an unknown path (404). Fastify's router answers
// both alike.

export class KnownPaths {
  /** methods by route pattern such as /v1/topics/:topic */
  readonly #routes = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();

  add(methods: string | readonly string[], url: string): void {
    const known = this.#routes.get(url);
    const route = known ?? { pattern: patternOf(url), methods: new Set<string>() };
    if (known === undefined) this.#routes.set(url, route);
    for (const method of [methods].flat()) route.methods.add(method);
  }

  /** Methods of a request path without its query, sorted; empty for an unknown path. */
  methodsOf(path: string): readonly string[] {
    const routes = [...this.#routes.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(routes.flatMap(({ methods }) => [...methods]))].sort();
  }
}

function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]*' : part.replaceAll('.', '\\.')));
  return new RegExp(`^${segments.join('/')}$`);
}
