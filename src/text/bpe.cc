#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"

namespace strobe {
namespace {

// The finaliser of MurmurHash3: spreads a hash over all its bits.
uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

size_t table_size(size_t entries) {
  return std::bit_ceil(std::max<size_t>(16, entries * 2));
}

// Up to this many bytes the plain search for the best pair, which is quadratic, beats a heap.
constexpr size_t kShortPieceBytes = 96;

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::string>& tokens) : ends_{0}, slots_(table_size(tokens.size()), kNone) {
  STROBE_CHECK(tokens.size() < INT32_MAX, "{} tokens", tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    arena_ += tokens[id];
    STROBE_CHECK(arena_.size() < UINT32_MAX, "token bytes {}", arena_.size());
    ends_.push_back(static_cast<uint32_t>(arena_.size()));
  }
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view token = bytes(id);
    if (token.empty()) continue;
    uint64_t hash = 0;
    for (const char c : token) hash = extend_hash(hash, c);
    if (find_hashed(hash, token) != kNone) continue;
    size_t slot = mix(hash) & (slots_.size() - 1);
    while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = id;
  }
}

std::string_view Vocabulary::bytes(int32_t id) const {
  STROBE_CHECK(id >= 0 && id < size(), "token id {} of {}", id, size());
  const auto i = static_cast<size_t>(id);
  return std::string_view(arena_).substr(ends_[i], ends_[i + 1] - ends_[i]);
}

std::optional<int32_t> Vocabulary::find(std::string_view bytes) const {
  uint64_t hash = 0;
  for (const char c : bytes) hash = extend_hash(hash, c);
  const int32_t id = find_hashed(hash, bytes);
  return id == kNone ? std::nullopt : std::optional(id);
}

int32_t Vocabulary::find_hashed(uint64_t hash, std::string_view bytes) const {
  size_t slot = mix(hash) & (slots_.size() - 1);
  for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
    if (this->bytes(slots_[slot]) == bytes) return slots_[slot];
  }
  return kNone;
}

std::vector<uint64_t> Vocabulary::tail_hashes(std::string_view bytes) {
  std::vector<uint64_t> tails(bytes.size() + 1, 0);
  uint64_t power = 1;
  for (size_t i = bytes.size(); i-- > 0;) {
    tails[i] = (static_cast<unsigned char>(bytes[i]) + uint64_t{1}) * power + tails[i + 1];
    power *= kBase;
  }
  return tails;
}

MergeTable::MergeTable(size_t expected_merges) : slots_(table_size(expected_merges)) {}

size_t MergeTable::slot_of(uint64_t key) const {
  size_t slot = mix(key) & (slots_.size() - 1);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  STROBE_CHECK(left >= 0 && right >= 0 && merge.id >= 0, "merge {} {} -> {}", left, right, merge.id);
  if ((used_ + 1) * 2 > slots_.size()) grow();
  Slot& slot = slots_[slot_of(key(left, right))];
  if (slot.key == kFree) {
    slot = {key(left, right), merge};
    ++used_;
  } else if (merge.rank < slot.merge.rank) {
    slot.merge = merge;
  }
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(key(left, right))].merge;  // a free slot holds the Merge that never joins
}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.key != kFree) slots_[slot_of(slot.key)] = slot;
  }
}

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, WholePiece whole_piece)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), whole_piece_(whole_piece), byte_ids_(256, -1) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.find(std::string_view(&c, 1)).value_or(-1);
  }
}

Bpe Bpe::from_ranks(Vocabulary vocabulary) {
  MergeTable merges(static_cast<size_t>(vocabulary.size()) * 4);
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    vocabulary.for_each_split(id, [&](int32_t left, int32_t right) { merges.add(left, right, {id, id}); });
  }
  return Bpe(std::move(vocabulary), std::move(merges), WholePiece::kLookUpFirst);
}

void Bpe::encode_piece(std::string_view piece, std::vector<int32_t>& out) const {
  if (whole_piece_ == WholePiece::kLookUpFirst) {
    if (const auto id = vocabulary_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  const size_t begin = out.size();
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) out.push_back(id);
  }
  if (out.size() - begin <= kShortPieceBytes) {
    merge_short(out, begin);
  } else {
    merge_long(out, begin);
  }
}

// ids[begin..] in place: find the leftmost pair of lowest rank, join it, look up its two new neighbours, again.
void Bpe::merge_short(std::vector<int32_t>& ids, size_t begin) const {
  size_t count = ids.size() - begin;
  if (count < 2) return;
  int32_t* id = ids.data() + begin;
  std::array<MergeTable::Merge, kShortPieceBytes> joins;  // joins[i]: of id[i] and id[i + 1]
  for (size_t i = 0; i + 1 < count; ++i) joins[i] = merges_.find(id[i], id[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (joins[i].rank < joins[best].rank) best = i;
    }
    if (joins[best].rank == INT32_MAX) break;
    id[best] = joins[best].id;
    std::copy(id + best + 2, id + count, id + best + 1);
    std::copy(joins.begin() + best + 1, joins.begin() + count - 1, joins.begin() + best);
    --count;
    if (best > 0) joins[best - 1] = merges_.find(id[best - 1], id[best]);
    if (best + 1 < count) joins[best] = merges_.find(id[best], id[best + 1]);
  }
  ids.resize(begin + count);
}

// The same result with a linked list of parts and a heap of possible joins. A join that was overtaken by another stays
// in the heap and is recognised when it comes up: its place no longer joins at that rank.
void Bpe::merge_long(std::vector<int32_t>& ids, size_t begin) const {
  constexpr uint32_t kEnd = UINT32_MAX;
  const size_t count = ids.size() - begin;
  STROBE_CHECK(count < kEnd, "a piece of {} bytes", count);
  struct Part {
    uint32_t previous, next;
    MergeTable::Merge join;  // with the next part; never joins when this part is gone
  };
  std::vector<Part> parts(count);
  int32_t* id = ids.data() + begin;
  const auto heap_entry = [](int32_t rank, uint32_t at) {  // ordered by rank, then from left to right
    return static_cast<uint64_t>(static_cast<uint32_t>(rank)) << 32 | at;
  };
  std::vector<uint64_t> heap;
  for (uint32_t i = 0; i < count; ++i) {
    parts[i] = {i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1, {}};
    if (i + 1 == count) continue;
    parts[i].join = merges_.find(id[i], id[i + 1]);
    if (parts[i].join.rank != INT32_MAX) heap.push_back(heap_entry(parts[i].join.rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto rejoin = [&](uint32_t i) {
    parts[i].join = parts[i].next == kEnd ? MergeTable::Merge{} : merges_.find(id[i], id[parts[i].next]);
    if (parts[i].join.rank == INT32_MAX) return;
    heap.push_back(heap_entry(parts[i].join.rank, i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto at = static_cast<uint32_t>(heap.back());
    const auto rank = static_cast<int32_t>(heap.back() >> 32);
    heap.pop_back();
    Part& part = parts[at];
    if (part.join.rank != rank) continue;
    const uint32_t gone = part.next;
    id[at] = part.join.id;
    part.next = parts[gone].next;
    if (part.next != kEnd) parts[part.next].previous = at;
    parts[gone].join = {};
    rejoin(at);
    if (part.previous != kEnd) rejoin(part.previous);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kEnd; i = parts[i].next) id[kept++] = id[i];
  ids.resize(begin + kept);
}

}  // namespace strobe
