// A menu that a button opens: a popover in the top layer, so that no card cuts it off. It closes by Esc, by a
// click elsewhere, and after an action.

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { Icon } from './parts.tsx';

export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const menu = useRef<HTMLDivElement>(null);
  const open = (button: HTMLElement): void => {
    const { current } = menu;
    if (current === null) return;
    current.showPopover();
    // An action closes it; a click elsewhere does by itself.
    current.addEventListener('click', () => current.hidePopover(), { once: true });
    const { top, bottom, right } = button.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = current;
    const fits = bottom + offsetHeight < innerHeight;
    current.style.top = `${fits ? bottom + 4 : Math.max(8, top - offsetHeight - 4)}px`;
    current.style.left = `${Math.max(8, right - offsetWidth)}px`;
    current.querySelector<HTMLElement>('a, button')?.focus();
  };
  return (
    <>
      <div class="menu" popover="auto" ref={menu}>
        {children}
      </div>
      <button
        type="button"
        class="btn plain s square"
        aria-label={label}
        aria-haspopup="true"
        onClick={(event) => open(event.currentTarget)}
      >
        <Icon name="more" small />
      </button>
    </>
  );
}
