// Gives each test file the values that a process of dq keeps once (processLocal). Files without isolation run
// in one process: a timer that an earlier file left running would hold the beat of a file with fake timers.

import { systemSource, useTimeSource } from '../../src/runtime/time.ts';

const scope = {};
useTimeSource({ ...systemSource, scope: () => scope });
