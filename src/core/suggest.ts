// "did you mean": finds the known name that a caller meant by an unknown one. Members of JSON, parameters,
// options, variables, commands and paths all ask here. One wrong letter of a longer name counts first, then a
// synonym, then a name that has the words of the given one, then one with more wrong letters. Invariant: two
// names of which only one has a negation are not near: auth is not near noAuth.

/** Words of other queues and usual guesses, after the names of dq that they mean. Of those names, the first
 *  that is known at that place counts. */
const synonyms: readonly (readonly [ours: string, theirs: string])[] = [
  ['topic, topics', 'name queue queueName topicName tube channel stream queues'],
  ['callbackUrl, callback', 'uri webhook hook endpoint notifyUrl callbackUri'],
  ['body', 'payload data message msg content args arguments params'],
  ['id', 'jobId messageId msgId taskId key uuid'],
  ['delay', 'wait after countdown delayMs delaySec delaySeconds delayTime'],
  ['at', 'eta time runAt executeAt executeTime timestamp due dueAt'],
  ['timeout, lease', 'ttr'],
  ['lease', 'visibilityTimeout visibility ackDeadline ackTimeout reserveTimeout'],
  ['maxAttempts', 'retry retries maxRetries tries maxTries retryCount retryLimit retryTimes'],
  ['backoff', 'retryDelay retryInterval retryPolicy interval intervals'],
  ['deadline, expiresIn, expires', 'ttl expire expires expiresAt expiration expireAt'],
  ['retryIf, rule', 'rule condition expression successIf success retryRule retryWhen'],
  ['cron', 'expression spec schedule crontab pattern'],
  ['timezone', 'tz zone'],
  ['Asia/Shanghai', 'Asia/Beijing Beijing China'],
  ['concurrency', 'workers parallel parallelism maxInFlight prefetch'],
  ['rate', 'limit qps rps throttle rateLimit'],
  ['alertEmails, alert', 'email emails mail notify recipients'],
  ['state', 'status'],
  ['since', 'from start after begin'],
  ['until', 'to end before'],
  ['limit, max', 'size count pageSize perPage top'],
  ['cursor', 'page offset next'],
  ['push', 'publish enqueue send put produce emit submit dispatch'],
  ['pull', 'consume reserve receive pop dequeue fetch worker subscribe'],
  ['ack', 'acknowledge done complete finish'],
  ['nack', 'reject release fail'],
  ['topic add', 'add create register'],
  ['topic set', 'edit update change modify patch'],
  ['set', 'edit update change modify patch'],
  ['rm, purge, cancel', 'delete remove rm del drop'],
  ['requeue, dead requeue', 'retry redrive replay republish'],
  ['dead', 'dlq failed failures deadLetters'],
  ['clear', 'truncate'],
  ['status', 'stats stat info ping health ps processes'],
  ['get, show', 'describe inspect view peek read cat'],
  ['ls', 'jobs list'],
  ['jobs', 'messages message tasks items'],
  ['readyz', 'health healthz ping status ready'],
  ['explain', 'why debug diagnose'],
  ['start', 'serve server up daemon'],
  ['stop', 'shutdown quit exit down kill'],
  ['token', 'login user users auth apiKey'],
  ['console', 'ui dashboard web open'],
  ['dead-letters-alerts, alerts', 'incident incidents'],
];

/** The names of dq by each of these words. */
const meant = new Map<string, string[]>();
for (const [ours, theirs] of synonyms)
  for (const word of theirs.split(' ')) {
    const key = lettersOf(word);
    meant.set(key, [...(meant.get(key) ?? []), ...ours.split(', ').map(lettersOf)]);
  }

/** Every known name is shorter; the cost of a suggestion grows with the letters that are compared. */
const lettersMax = 64;

/** From this length on another letter is more likely a slip than another word. */
const lettersOfTypo = 5;

/** Words that turn the meaning of a name round. */
const negations = ['no', 'not', 'skip', 'without', 'disable'];

/** null: none is near. */
export function suggest(given: string, known: readonly string[]): string | null {
  const wanted = given.slice(0, lettersMax);
  const agreeing = known.filter((name) => negationsOf(name) === negationsOf(wanted));
  return (
    // One letter is less than a negation; and `noauth` has no word of its own for it.
    (wanted.length >= lettersOfTypo ? bySpelling(wanted, known, 1) : null) ??
    bySynonym(wanted, agreeing) ??
    byWords(wanted, agreeing) ??
    byBeginning(wanted, agreeing) ??
    bySpelling(wanted, agreeing, Math.max(1, Math.floor(plain(wanted).length / 3)))
  );
}

const negationsOf = (name: string): string =>
  wordsOf(name)
    .filter((word) => negations.includes(word))
    .join(' ');

/** `unknown field; did you mean topic?`, or with what to do where no name is near. */
export function unknownName(
  kind: string,
  given: string,
  known: readonly string[],
  otherwise: string,
): string {
  const near = suggest(given, known);
  return `unknown ${kind}; ${near === null ? otherwise : `did you mean ${near}?`}`;
}

function bySynonym(wanted: string, known: readonly string[]): string | null {
  for (const ours of meant.get(lettersOf(wanted)) ?? []) {
    const name = known.find((one) => lettersOf(one) === ours);
    if (name !== undefined) return name;
  }
  return null;
}

/** The shortest name that has all words of the given one, in their order: callbackUrl of `url`, server.port
 *  of `port`, `topic pause` of `pause`. */
function byWords(wanted: string, known: readonly string[]): string | null {
  const words = wordsOf(wanted);
  let best: string | null = null;
  let fewest = Number.POSITIVE_INFINITY;
  for (const name of known) {
    const own = wordsOf(name);
    if (own.length >= fewest || !hasInOrder(own, words)) continue;
    best = name;
    fewest = own.length;
  }
  return best;
}

/** The shortest name that begins with the given one: sentinelPassword of `sentinelpass`. */
function byBeginning(given: string, known: readonly string[]): string | null {
  const wanted = plain(given);
  if (wanted.length < lettersOfTypo) return null;
  const [shortest = null] = known
    .filter((name) => plain(name).startsWith(wanted))
    .sort((a, b) => a.length - b.length);
  return shortest;
}

function hasInOrder(all: readonly string[], some: readonly string[]): boolean {
  let at = 0;
  for (const word of all) if (word === some[at]) at += 1;
  return some.length > 0 && at === some.length;
}

/** `max`: letters that may be wrong. */
function bySpelling(given: string, known: readonly string[], max: number): string | null {
  const wanted = plain(given);
  let best: string | null = null;
  let bestDistance = max + 1;
  for (const name of known) {
    const distance = editDistance(wanted, plain(name), bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** `maxAttempts`, `--max-attempts`, `DQ_MAX_ATTEMPTS` → their words in lower case */
function wordsOf(name: string): readonly string[] {
  return (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z\d]+|\d+/g) ?? []).map((word) => word.toLowerCase());
}

function lettersOf(name: string): string {
  return name.replaceAll(/[^A-Za-z\d]/g, '').toLowerCase();
}

/** An option without its dashes: they are equal in all options. */
function plain(name: string): string {
  return name.replace(/^--?/, '').toLowerCase();
}

/** Letters to insert, remove, change or exchange with their neighbour; `max` + 1 for every larger distance.
 *  The bound makes its cost linear in the length of the texts. */
export function editDistance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1;
  let before: readonly number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    // Cells further than `max` from the diagonal exceed `max`.
    const from = Math.max(1, i - max);
    const to = Math.min(b.length, i + max);
    const row = new Array<number>(b.length + 1).fill(max + 1);
    if (from === 1) row[0] = i;
    let best = row[0] ?? max + 1;
    for (let j = from; j <= to; j++) {
      const changed = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isExchanged = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const exchanged = isExchanged ? (before[j - 2] ?? max) + 1 : max + 1;
      const cell = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, changed, exchanged);
      row[j] = cell;
      if (cell < best) best = cell;
    }
    // An exchange reaches back over one row.
    if (best > max && Math.min(...last) >= max) return max + 1;
    before = last;
    last = row;
  }
  return Math.min(last[b.length] ?? 0, max + 1);
}
