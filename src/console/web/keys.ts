// Keys of the console, outside of fields: / finds, g then a letter goes to a screen, Esc leaves a field.
// Screens add their own by `screenKeys`.

import { go, href } from './router.ts';

const screens: Readonly<Record<string, readonly string[]>> = {
  o: [],
  t: ['topics'],
  j: ['jobs'],
  d: ['dead'],
  p: ['push'],
  s: ['processes'],
  a: ['access'],
};

/** Keys of the screen that is shown; a screen sets and clears them. */
export const screenKeys = new Map<string, () => void>();

const isField = (element: EventTarget | null): boolean =>
  element instanceof HTMLInputElement ||
  element instanceof HTMLTextAreaElement ||
  element instanceof HTMLSelectElement;

/** Returns the function that removes them. */
export function bindKeys(): () => void {
  let afterG = 0;
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (isField(event.target)) {
      if (event.key === 'Escape') (event.target as HTMLElement).blur();
      return;
    }
    const wasG = performance.now() - afterG < 1_500;
    afterG = 0;
    if (wasG && screens[event.key] !== undefined) go(href(...(screens[event.key] ?? [])));
    else if (event.key === 'g') afterG = performance.now();
    else if (event.key === '/') document.querySelector<HTMLInputElement>('#find')?.focus();
    else if (screenKeys.has(event.key)) screenKeys.get(event.key)?.();
    else return;
    event.preventDefault();
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}
