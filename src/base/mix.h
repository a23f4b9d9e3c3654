// splitmix64 (Steele, Lea, Flood 2014): a good mixing of 64 bits, for random streams by key and for hashes.
#pragma once

#include <cstdint>

namespace strobe {

constexpr uint64_t splitmix64(uint64_t state) {
  state += 0x9e3779b97f4a7c15ULL;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
  return state ^ (state >> 31);
}

// Of a and b, in this order.
constexpr uint64_t mix(uint64_t a, uint64_t b) {
  return splitmix64(splitmix64(a) ^ b);
}

}  // namespace strobe
