import { exercise } from './exercise.ts';
import { openModelStore } from './model-store.ts';

exercise('the model', () => openModelStore());
