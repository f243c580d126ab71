#!lua flags=allow-oom
-- moment: draws a number, above all that the bucket drew before and below all that it draws later.
-- @keys P
-- @args none
-- @returns the number
-- @writes numbers
-- @include clock, numbers, healing
-- Why: the clock would not tell. It can be set back, and numbers then run ahead of it. A number that is read
--   but not stored may be drawn later.
local number = draw()
keep_numbers()
return number
