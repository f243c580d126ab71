// The secret that everybody knows: `--secret trial` at `dq topic add` and at `dq sink` lets a first trial verify its
// signatures without a secret being copied. It protects nothing, so a topic gets it for callbacks to this machine only.

export const trialWord = 'trial';

export const trialSecret = `whsec_${Buffer.from('dq trial secret, known to all').toString('base64')}`;

/** Does this callback stay on this machine? Literal addresses and localhost alone; a name could lead anywhere. */
export function isLocalCallback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const host = new URL(url).hostname;
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
