// What can be mailed about, seen from the Mailer: alerts under keys (topics, kinds of incident), each key with a window of its
// own. Two sources: the outbox of the job store and the incidents of this instance.

export interface AlertSource {
  /** in log lines */
  readonly name: string;
  /** Keys with owed alerts that were not told of within windowMs, the longest waiting first. */
  due(windowMs: number): Promise<readonly string[]>;
  /** Who is told of this key, beside alerts.emails. */
  addresses(key: string): Promise<readonly string[]>;
  /** What is owed under the key, held for whoever asked until it is settled or upkeepLimits.alertClaimMs are over. */
  take(key: string): Promise<Owed>;
}

export interface Owed {
  /** of the alerts, oldest first; empty where somebody else was faster */
  readonly ids: readonly number[];
  /** these are the most that are taken; younger ones may be owed, too */
  readonly isCut: boolean;
  /** of the oldest mailLimits.alertsShown, as an operator knows them; for the log */
  readonly names: readonly string[];
  /** A letter about these of them; one line and plain text. */
  letter(ids: ReadonlySet<number>): { readonly subject: string; readonly text: string };
  /** `sent` begins the window of the key; `owed` gives them back. */
  settle(ids: readonly number[], as: 'sent' | 'nobody' | 'owed'): Promise<void>;
}
