// KnownPaths tells a wrong method on a known path (405) from an unknown path (404), and finds the known path
// that is nearest to it. Fastify's router answers both alike.

import { suggest } from '../../core/suggest.ts';

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

  /** The known path that the caller meant, with the caller's names; null: none is near. */
  nearestTo(path: string): string | null {
    const given = path.split('/').slice(1);
    const version = /^v\d+$/.test(given[0] ?? '') ? given.slice(1) : given;
    let best: readonly string[] | null = null;
    let fewest = Number.POSITIVE_INFINITY;
    for (const url of this.#routes.keys()) {
      const known = url.split('/').slice(1);
      const meant = corrected(known[0] === 'v1' ? ['v1', ...version] : given, known);
      const wrong = meant?.filter((segment, at) => segment !== given[at]).length ?? fewest;
      if (meant === null || wrong >= fewest) continue;
      best = meant;
      fewest = wrong;
    }
    return best === null ? null : `/${best.join('/')}`;
  }
}

/** The given segments with the words of a route; null: one of them is not near. */
function corrected(given: readonly string[], known: readonly string[]): readonly string[] | null {
  if (given.length !== known.length) return null;
  const meant: string[] = [];
  for (const [at, segment] of given.entries()) {
    const word = known[at] ?? '';
    if (word.startsWith(':') ? segment !== '' : segment === word) meant.push(segment);
    else if (!word.startsWith(':') && suggest(segment, [word]) === word) meant.push(word);
    else return null;
  }
  return meant;
}

function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]*' : part.replaceAll('.', '\\.')));
  return new RegExp(`^${segments.join('/')}$`);
}
