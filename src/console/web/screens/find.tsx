// The find box of the top bar: leads to the job with the typed id.

import { Icon } from '../parts/parts.tsx';
import { go, hrefQuery } from '../router.ts';
import { t } from '../words/words.ts';

export function FindBox() {
  return (
    <search class="find">
      <form
        class="plain"
        onSubmit={(event) => {
          event.preventDefault();
          const field = event.currentTarget.querySelector('input');
          const text = field?.value.trim() ?? '';
          if (text !== '') go(hrefQuery(['jobs'], { id: text }));
        }}
      >
        <Icon name="search" />
        <label class="sr" for="find">
          {t('find_placeholder')}
        </label>
        <input id="find" placeholder={t('find_placeholder')} autocomplete="off" />
        <kbd>/</kbd>
      </form>
    </search>
  );
}
