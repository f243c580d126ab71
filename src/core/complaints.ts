// What is wrong with one input, gathered instead of thrown: whoever sends five bad fields hears of five. Owns the choice
// between `invalid` and `not_built`: while anything is invalid, fields of later versions are not worth naming.

import { DqError, type FieldError } from './errors.ts';

export class Complaints {
  readonly #invalid: FieldError[] = [];
  readonly #notBuilt: FieldError[] = [];

  /** Answers undefined, so that a parser can refuse and return in one statement. */
  refuse(field: string, message: string, position?: number): undefined {
    this.#invalid.push(position === undefined ? { field, message } : { field, message, position });
  }

  /** Valid, but without effect in this version; never accepted and ignored. */
  notBuilt(field: string, message: string): undefined {
    this.#notBuilt.push({ field, message });
  }

  /** null when nothing was refused. */
  error(): DqError | null {
    const errors = this.#invalid.length > 0 ? this.#invalid : this.#notBuilt;
    const [first] = errors;
    if (first === undefined) return null;
    const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    const code = this.#invalid.length > 0 ? 'invalid' : 'not_built';
    return new DqError(code, `${first.field}: ${first.message}${rest}`, { errors });
  }

  throwIfAny(): void {
    const error = this.error();
    if (error !== null) throw error;
  }
}
