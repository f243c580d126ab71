// The shared parts of scripts, as `@include` names them.

export { default as alerts } from './lua/shared/alerts.lua';
export { default as clock } from './lua/shared/clock.lua';
export { default as dead } from './lua/shared/dead.lua';
export { default as ends } from './lua/shared/ends.lua';
export { default as frame } from './lua/shared/frame.lua';
export { default as healing } from './lua/shared/healing.lua';
export { default as holds } from './lua/shared/holds.lua';
export { default as jobs } from './lua/shared/jobs.lua';
export { default as leases } from './lua/shared/leases.lua';
export { default as list } from './lua/shared/list.lua';
export { default as moves } from './lua/shared/moves.lua';
export { default as numbers } from './lua/shared/numbers.lua';
export { default as outcomes } from './lua/shared/outcomes.lua';
export { default as overdue } from './lua/shared/overdue.lua';
export { default as owners } from './lua/shared/owners.lua';
export { default as places } from './lua/shared/places.lua';
export { default as quarantine } from './lua/shared/quarantine.lua';
export { default as queues } from './lua/shared/queues.lua';
export { default as strikes } from './lua/shared/strikes.lua';
export { default as topics } from './lua/shared/topics.lua';
export { default as wheel } from './lua/shared/wheel.lua';
export { default as whole } from './lua/shared/whole.lua';
