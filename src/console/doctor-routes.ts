// POST /v1/doctor runs the checks of dq doctor in this process, GET shows their findings so far. Only the
// console serves them: a check writes to the disk and calls servers, which must not delay a push.
// Invariant: one run at a time. A run that is late is shown as it is, and no other begins before its end.

import type { Api } from '../api/api-context.ts';
import { readyState } from '../api/routes/daemon-routes.ts';
import { heldTopics } from '../api/routes/held-topics.ts';
import { crossCheck, type Origins } from '../config/cross-checks.ts';
import { openFilesMax } from '../config/open-files.ts';
import { contractLimits } from '../contract/api/limits.ts';
import { doctorSchema, doctorStateSchema } from '../contract/api/trial.ts';
import { formatInstant } from '../core/duration.ts';
import type { Finding } from '../core/finding.ts';
import type { MasterQuestions } from '../process/master-questions.ts';
import type { RoleContext } from '../process/role.ts';
import { clearTimeout, setTimeout, wallNow } from '../runtime/time.ts';

const access = { access: { scope: 'admin', topics: 'every' } } as const;

export function doctorRoutes(api: Api, role: RoleContext, questions: MasterQuestions): void {
  const run = new DoctorRun(role, questions);
  api.get('/v1/doctor', { schema: doctorStateSchema, config: access }, () => run.json());
  api.post('/v1/doctor', { schema: doctorSchema, config: access }, async (_request, answer) => {
    run.begin();
    return answer.code(202).send(run.json());
  });
}

class DoctorRun {
  readonly #role: RoleContext;
  readonly #questions: MasterQuestions;
  #state: 'none' | 'running' | 'done' | 'late' = 'none';
  #isBusy = false;
  #startedAt = 0;
  #endedAt: number | null = null;
  #findings: Finding[] = [];

  constructor(role: RoleContext, questions: MasterQuestions) {
    this.#role = role;
    this.#questions = questions;
  }

  begin(): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#state = 'running';
    this.#startedAt = wallNow();
    this.#endedAt = null;
    this.#findings = [];
    const late = setTimeout(() => this.#end('late'), contractLimits.doctorRunMs);
    this.#check()
      .catch((error: unknown) => this.#role.log.error('doctor: unhandled error in a check', error))
      .finally(() => {
        clearTimeout(late);
        this.#isBusy = false;
        this.#end('done');
      });
  }

  json() {
    return {
      state: this.#state,
      startedAt: this.#state === 'none' ? null : formatInstant(this.#startedAt),
      endedAt: this.#endedAt === null ? null : formatInstant(this.#endedAt),
      findings: this.#findings,
    };
  }

  async #check(): Promise<void> {
    // Its libraries cost memory that a console without a run saves.
    const { runDoctor } = await import('../doctor/doctor.ts');
    const { config } = this.#role;
    const onDisk = await this.#questions.config();
    const file = onDisk?.file ?? null;
    // Those that dq doctor has after it has read the file, which may have changed since.
    const known = new Map((onDisk?.items ?? []).map(({ name, origin }) => [name, origin]));
    const origins = Object.fromEntries(
      Object.keys(config).map((name) => [name, known.get(name) ?? 'default']),
    );
    const { warnings } = crossCheck(config, origins as Origins, { openFilesMax: openFilesMax() });
    const problem = onDisk?.problem ?? null;
    const onReload =
      problem === null ? [] : [{ where: file ?? 'environment', message: `a reload rejects it: ${problem}` }];
    await runDoctor(
      { ok: true, config, file, warnings: [...warnings, ...onReload] },
      {
        ready: () => readyState(this.#role),
        held: () => heldTopics(this.#role),
        mailTopics: async () => this.#mailTopics(),
      },
      (findings) => this.#findings.push(...findings),
    );
  }

  #mailTopics(): readonly string[] {
    return [...this.#role.topics.all()].flatMap(({ topic, alertEmails }) =>
      alertEmails.length > 0 ? [topic] : [],
    );
  }

  #end(state: 'done' | 'late'): void {
    if (this.#state !== 'running') {
      // The late run has ended: its last findings count, too.
      if (this.#state === 'late' && state === 'done') this.#state = 'done';
      return;
    }
    this.#state = state;
    this.#endedAt = wallNow();
  }
}
