// Whether this build looks for faults with a sanitizer (AddressSanitizer, ThreadSanitizer). It is ten times slower
// then, and finds nothing more in what only repeats itself: tests that go over many like cases may take every few of
// them.
#pragma once

namespace strobe {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace strobe
