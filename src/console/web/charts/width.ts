// Width of the place of a chart: a drawing that is scaled to it would scale its letters, too.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** `ref`: of the place. 0: not known yet. */
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
