/** A reply that rejects a request, as `toMatchObject` compares it: status, code, and the fields that it
 *  names. Without fields it may name any. */
export const problem = (status: number, code: string, ...fields: readonly (string | undefined)[]) => ({
  status,
  body: { code, ...(fields.length === 0 ? {} : { errors: fields.map((field) => ({ field })) }) },
});
