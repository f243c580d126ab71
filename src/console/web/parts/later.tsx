// A screen in a chunk of its own, loaded when it is first shown. A chunk that cannot be loaded is one of an
// older build, or dq does not answer: the page offers to reload itself.

import type { FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { t } from '../words/words.ts';
import { Button, Strip, Waiting } from './parts.tsx';

export function later<P extends object>(
  load: () => Promise<{ readonly Screen: FunctionComponent<P> }>,
): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | null = null;
  return function Later(props: P) {
    const [state, setState] = useState<'ready' | 'waits' | 'failed'>(loaded === null ? 'waits' : 'ready');
    useEffect(() => {
      if (loaded !== null) return;
      load().then(
        ({ Screen }) => {
          loaded = Screen;
          setState('ready');
        },
        () => setState('failed'),
      );
    }, []);
    if (state === 'failed') return <NewVersion />;
    const Loaded = loaded;
    return Loaded === null ? <Waiting /> : <Loaded {...props} />;
  };
}

/** Another build answers than the one that this page came from. */
export function NewVersion() {
  return (
    <Strip
      tone="info"
      icon="redo"
      end={
        <Button look="s" onClick={() => location.reload()}>
          {t('reload_page')}
        </Button>
      }
    >
      {t('new_version')}
    </Strip>
  );
}
