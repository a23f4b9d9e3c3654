// Byte-level byte-pair encoding: the vocabulary, the table of merges, and the merging of one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strobe {

// Token ids and their bytes, both ways. Ids run from 0 to size() - 1; some may be holes (no such token: empty bytes).
class Vocabulary {
 public:
  // tokens[id] are the token's bytes, empty for a hole. When two ids have the same bytes, find() gives the lower one.
  explicit Vocabulary(const std::vector<std::string>& tokens);

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }
  [[nodiscard]] std::string_view bytes(int32_t id) const;  // 0 <= id < size()
  [[nodiscard]] std::optional<int32_t> find(std::string_view bytes) const;

  // Calls split(left, right) for each way to cut token `id` into two tokens. Costs one look-up a byte.
  template <class F>
  void for_each_split(int32_t id, F&& split) const {
    std::vector<uint64_t> tails = tail_hashes(bytes(id));
    uint64_t head = 0;
    const std::string_view all = bytes(id);
    for (size_t cut = 1; cut < all.size(); ++cut) {
      head = extend_hash(head, all[cut - 1]);
      const int32_t left = find_hashed(head, all.substr(0, cut));
      if (left == kNone) continue;
      const int32_t right = find_hashed(tails[cut], all.substr(cut));
      if (right != kNone) split(left, right);
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  // A polynomial hash: that of a tail or head of a string follows from its neighbour's in one step.
  static uint64_t extend_hash(uint64_t hash, char next) { return hash * kBase + static_cast<unsigned char>(next) + 1; }
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15ULL;
  static std::vector<uint64_t> tail_hashes(std::string_view bytes);
  [[nodiscard]] int32_t find_hashed(uint64_t hash, std::string_view bytes) const;

  std::string arena_;           // the tokens' bytes one after another
  std::vector<uint32_t> ends_;  // token id is arena_[ends_[id], ends_[id + 1])
  std::vector<int32_t> slots_;  // open addressing, a power of two
};

// Which neighbours join, into what, and how early: the lowest rank first.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = INT32_MAX;  // INT32_MAX: these two do not join
    int32_t id = -1;
  };
  explicit MergeTable(size_t expected_merges);
  // Adds a merge. One that is already there keeps the lower rank.
  void add(int32_t left, int32_t right, Merge merge);
  [[nodiscard]] Merge find(int32_t left, int32_t right) const;
  [[nodiscard]] size_t size() const { return used_; }

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t key) const;
  void grow();

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Encodes pieces. The result is that of merging, again and again, the leftmost pair of lowest rank: O(n log n) time and
// O(n) memory on a piece of n bytes, without recursion.
class Bpe {
 public:
  enum class WholePiece { kLookUpFirst, kMergeOnly };

  // A byte that is a token of its own begins as that token; one that is not is left out of the result.
  //   whole_piece  whether a piece that is a token becomes that token even if no merges lead to it (tiktoken does so)
  Bpe(Vocabulary vocabulary, MergeTable merges, WholePiece whole_piece);

  // The rule of tiktoken: two neighbours join when their joined bytes are a token, and its id is the rank.
  static Bpe from_ranks(Vocabulary vocabulary);

  void encode_piece(std::string_view piece, std::vector<int32_t>& out) const;
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void merge_short(std::vector<int32_t>& ids, size_t begin) const;
  void merge_long(std::vector<int32_t>& ids, size_t begin) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  WholePiece whole_piece_;
  std::vector<int32_t> byte_ids_;  // 256 entries, -1: not a token
};

}  // namespace strobe
