// A mail address is one addr-spec of plain ASCII without blanks, commas, angle brackets, quotes or line
// breaks: nothing in it can end an SMTP command or a header.

const local = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*";
const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
/** Anchored and without flags, for JSON schemas too. */
export const mailAddressPattern = new RegExp(`^(?=[^@]{1,64}@.{1,253}$)${local}@${label}(\\.${label})*$`);

export function isMailAddress(text: unknown): text is string {
  return typeof text === 'string' && mailAddressPattern.test(text);
}
