// Widths of a chart's place and of its labels.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Width of the place of a chart: a drawing that is scaled to it would scale its letters, too. `ref`: of the
 *  place. 0: not known yet. */
export function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = ref;
    if (current === null) return;
    const measure = (): void => setWidth(Math.floor(current.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}

/** Pixels of a text of 11 px, about; a Chinese character is as wide as high. The browser is not asked: labels
 *  are placed before they are drawn. */
export function textWidth(text: string): number {
  return [...text].reduce((sum, character) => sum + (character > '\u2e80' ? 11 : 6), 0);
}
