-- A part of acquire and fence, after held. A key that is no string is free if it is a set of readers in
-- which none is left.

    if not held then
      --include axis
      --include readers
      free = axis(KEYS[i]) and readers(KEYS[i]) == 0 --mutant:a-writer-does-not-look-at-readers --mutant:an-intent-keeps-writers-out
    end
