// What dq takes for a mail address: one addr-spec of plain ASCII, fit for a mail server's command line and for a header,
// because nothing in it could end either: no blanks, no comma, no angle, no quotes, no line break.

const local = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*";
const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
/** Also for other implementations: no flags, anchored. */
export const mailAddressPattern = new RegExp(`^(?=[^@]{1,64}@.{1,253}$)${local}@${label}(\\.${label})*$`);

export function isMailAddress(text: unknown): text is string {
  return typeof text === 'string' && mailAddressPattern.test(text);
}
