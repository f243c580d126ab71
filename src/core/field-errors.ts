// FieldErrors collects everything that is wrong with one input. A caller with five bad fields gets all five.

import { DqError, type FieldError } from './errors.ts';

export class FieldErrors {
  readonly #errors: FieldError[] = [];

  /** Returns undefined, so that a parser can reject and return in one statement. */
  reject(field: string, message: string, position?: number): undefined {
    this.#errors.push(position === undefined ? { field, message } : { field, message, position });
  }

  /** rejections so far */
  get count(): number {
    return this.#errors.length;
  }

  /** The field or one of its members. */
  has(field: string): boolean {
    return this.#errors.some((error) => error.field === field || error.field.startsWith(`${field}.`));
  }

  /** null when nothing was rejected. */
  error(): DqError | null {
    const errors = this.#errors;
    const [first] = errors;
    if (first === undefined) return null;
    const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    return new DqError('invalid', `${first.field}: ${first.message}${rest}`, { errors });
  }

  throwIfAny(): void {
    const error = this.error();
    if (error !== null) throw error;
  }
}
