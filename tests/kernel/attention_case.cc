#include "attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sanitized.h"

namespace strobe::kernel {
namespace {

// Which pages each request has: dealt at random out of a few more than are needed.
struct PageTable {
  PageTable(const std::vector<int64_t>& lengths, int32_t slots_per_page, uint64_t seed) : page_size(slots_per_page) {
    page_count = 2;
    for (const int64_t length : lengths) page_count += (length + page_size - 1) / page_size;
    const std::vector<int32_t> order = Random(seed).permutation(page_count);
    auto next = order.begin();
    for (const int64_t length : lengths) {
      const auto end = next + (length + page_size - 1) / page_size;
      pages.emplace_back(next, end);
      next = end;
    }
  }
  [[nodiscard]] int64_t slot(size_t request, int64_t position) const {
    return int64_t{pages[request][static_cast<size_t>(position / page_size)]} * page_size + position % page_size;
  }

  int32_t page_size;
  int64_t page_count;
  std::vector<std::vector<int32_t>> pages;
};

// NaN but for the first lengths[i] rows of each request.
class FilledStore {
 public:
  FilledStore(const PageTable& pages, const AttentionOptions& o, const std::vector<Matrix>& content,
              const std::vector<int64_t>& lengths) {
    store_ = {.dtype = o.store, .dim = content.at(0).columns(), .page_size = o.page_size, .scale = o.store_scale};
    const int64_t width = size_bytes(o.store);
    bytes_.assign(static_cast<size_t>(pages.page_count * o.page_size * store_.dim * width), 0xff);
    for (size_t request = 0; request < content.size(); ++request) {
      for (int64_t p = 0; p < lengths[request]; ++p) {
        uint8_t* row = bytes_.data() + pages.slot(request, p) * store_.dim * width;
        for (int64_t i = 0; i < store_.dim; ++i) put(row + i * width, content[request].at(p, i));
      }
    }
    store_.data = bytes_.data();
  }
  [[nodiscard]] const PagedStore& view() const { return store_; }

 private:
  void put(uint8_t* place, float value) const {
    const Bf16 half = to_bf16(value);
    if (store_.dtype == DType::kF32) std::memcpy(place, &value, 4);
    if (store_.dtype == DType::kBf16) std::memcpy(place, &half, 2);
    if (store_.dtype == DType::kE4m3) *place = to_e4m3(value / store_.scale).bits;
  }

  PagedStore store_;
  std::vector<uint8_t> bytes_;
};

// Numbers as they are after a trip through the store.
class Decoded {
 public:
  Decoded(const AttentionOptions& o, const Matrix& content, int64_t rows) : columns_(content.columns()) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns_; ++c) numbers_.push_back(stored(o, content.at(r, c)));
    }
  }
  [[nodiscard]] double at(int64_t row, int64_t column) const {
    return numbers_[static_cast<size_t>(row * columns_ + column)];
  }

 private:
  static double stored(const AttentionOptions& o, float value) {
    if (o.store == DType::kBf16) return round_to_bf16(value);
    if (o.store == DType::kF32) return value;
    return e4m3_value(to_e4m3(value / o.store_scale).bits) * static_cast<double>(o.store_scale);
  }

  int64_t columns_;
  std::vector<double> numbers_;
};

int64_t total_rows(const std::vector<Chunk>& chunks) {
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) rows += chunk.count;
  return rows;
}

}  // namespace

AttentionOptions gqa_options(int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return {.mla = false,
          .heads = heads,
          .kv_heads = kv_heads,
          .key_dim = head_dim,
          .value_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

std::string describe(const AttentionOptions& o) {
  return fmt::format("{} heads over {} of {}/{}, {} x {} in pages of {}, {}, window {}", o.heads, o.kv_heads, o.key_dim,
                     o.value_dim, to_string(o.store), o.store_scale, o.page_size, o.causal ? "causal" : "not causal",
                     o.window);
}

Chunk tail(const AttentionOptions& options, int request, int64_t count) {
  const int64_t length = options.lengths[static_cast<size_t>(request)];
  count = std::min(count, length);
  return {.request = request, .first = length - count, .count = count, .key_count = length};
}

AttentionCase::AttentionCase(AttentionOptions options, uint64_t seed) : options_(std::move(options)) {
  Random random(seed);
  for (const int64_t length : options_.lengths) {
    queries.emplace_back(DType::kF32, length, options_.heads * options_.key_dim).fill(random);
    keys.emplace_back(DType::kF32, length, options_.kv_heads * options_.key_dim).fill(random);
    if (!options_.mla) values.emplace_back(DType::kF32, length, options_.kv_heads * options_.value_dim).fill(random);
  }
}

Matrix AttentionCase::run(const CpuKernels& table, const std::vector<Chunk>& chunks, DType q, DType out, int workers,
                          uint64_t page_seed) const {
  const AttentionOptions& o = options_;
  const PageTable pages(o.lengths, o.page_size, page_seed);
  std::vector<int64_t> key_counts(o.lengths.size(), 0);
  for (const Chunk& chunk : chunks) {
    int64_t& count = key_counts[static_cast<size_t>(chunk.request)];
    count = std::max(count, chunk.key_count);
  }
  const FilledStore k(pages, o, keys, key_counts);
  const FilledStore v(pages, o, o.mla ? keys : values, key_counts);

  Matrix rows(q, total_rows(chunks), o.heads * o.key_dim, 3);
  const Matrix result(out, rows.rows(), o.heads * o.value_dim, 1);
  std::vector<AttentionRequest> requests;
  std::vector<std::vector<int32_t>> page_lists;  // as long as key_count needs, no longer
  std::vector<int32_t> first_visible;
  int64_t row = 0;
  for (const Chunk& chunk : chunks) {
    const auto request = static_cast<size_t>(chunk.request);
    const auto begin = pages.pages[request].begin();
    page_lists.emplace_back(begin, begin + (chunk.key_count + o.page_size - 1) / o.page_size);
    requests.push_back({.row_begin = static_cast<int32_t>(row),
                        .row_count = static_cast<int32_t>(chunk.count),
                        .first_position = static_cast<int32_t>(chunk.first),
                        .key_count = static_cast<int32_t>(chunk.key_count),
                        .pages = page_lists.back().data()});
    if (!o.first_visible.empty()) first_visible.push_back(o.first_visible[request]);
    for (int64_t j = 0; j < chunk.count; ++j, ++row) {
      for (int64_t i = 0; i < rows.columns(); ++i) rows.put(row, i, queries[request].at(chunk.first + j, i));
    }
  }
  // Half of the calls are told what is read behind them. It is a hint, and changes nothing.
  static const std::vector<std::byte> later(20'000);
  const Upcoming upcoming[] = {{later.data(), 64, 0}, {later.data() + 1, 0, 0},  {later.data() + 100, 4097, 0},
                               {later.data(), 1, 1},  {later.data(), 20'000, 3}, {nullptr, 0, 4}};
  const int64_t told = page_seed % 2 == 0 ? std::size(upcoming) : 0;
  if (o.mla) {
    table.mla_attention(pool_of(workers), {.q = rows.view(),
                                           .store = k.view(),
                                           .requests = requests.data(),
                                           .request_count = static_cast<int64_t>(requests.size()),
                                           .out = result.view(),
                                           .rows = rows.rows(),
                                           .heads = o.heads,
                                           .latent = o.value_dim,
                                           .rope = o.key_dim - o.value_dim,
                                           .scale = o.scale,
                                           .upcoming = upcoming,
                                           .upcoming_count = told});
  } else {
    table.gqa_attention(pool_of(workers), {.q = rows.view(),
                                           .k = k.view(),
                                           .v = v.view(),
                                           .requests = requests.data(),
                                           .first_visible = first_visible.empty() ? nullptr : first_visible.data(),
                                           .request_count = static_cast<int64_t>(requests.size()),
                                           .out = result.view(),
                                           .rows = rows.rows(),
                                           .heads = o.heads,
                                           .kv_heads = o.kv_heads,
                                           .head_dim = o.key_dim,
                                           .value_dim = o.value_dim == o.key_dim ? 0 : o.value_dim,
                                           .scale = o.scale,
                                           .causal = o.causal,
                                           .window = o.window,
                                           .prompt = o.prompt,
                                           .upcoming = upcoming,
                                           .upcoming_count = told});
  }
  EXPECT_TRUE(result.gaps_intact());
  return result;
}

Oracle AttentionCase::formula(const std::vector<Chunk>& chunks) const {
  const AttentionOptions& o = options_;
  Oracle oracle;
  for (const Chunk& chunk : chunks) {
    const auto request = static_cast<size_t>(chunk.request);
    const Decoded k(o, keys[request], chunk.key_count);
    const Decoded v(o, o.mla ? keys[request] : values[request], chunk.key_count);
    for (int64_t t = chunk.first; t < chunk.first + chunk.count; ++t) {
      const auto visible = [&](int64_t p) {
        if (o.causal && p > t) return false;
        if (o.causal && o.window > 0 && p + o.window <= t) return false;
        return o.first_visible.empty() || p >= o.first_visible[request];
      };
      for (int64_t h = 0; h < o.heads; ++h) {
        const int64_t group = h * o.kv_heads / o.heads;
        std::vector<std::pair<int64_t, double>> weights;  // position, at first its score
        double highest = -HUGE_VAL;
        for (int64_t p = 0; p < chunk.key_count; ++p) {
          if (!visible(p)) continue;
          double score = 0;
          for (int64_t i = 0; i < o.key_dim; ++i) {
            score += queries[request].at(t, h * o.key_dim + i) * k.at(p, group * o.key_dim + i);
          }
          weights.emplace_back(p, score * static_cast<double>(o.scale));
          highest = std::max(highest, weights.back().second);
        }
        double total = 0;
        for (auto& [p, weight] : weights) {
          weight = std::exp(weight - highest);
          total += weight;
        }
        for (int64_t i = 0; i < o.value_dim; ++i) {
          double sum = 0;
          double magnitude = 0;
          for (const auto& [p, weight] : weights) {
            const double term = weight / total * v.at(p, group * o.value_dim + i);
            sum += term;
            magnitude += std::fabs(term);
          }
          oracle.add(sum, magnitude);
        }
      }
    }
  }
  return oracle;
}

void expect_attention_right(const CpuKernels& table, const AttentionCase& c, const std::vector<Chunk>& chunks, DType q,
                            DType out, int workers) {
  SCOPED_TRACE(describe(c.options()));
  Oracle oracle = c.formula(chunks);
  if (&table != &ref_kernels()) oracle = with_values(oracle, c.run(ref_kernels(), chunks, q, DType::kF32).values());
  const Matrix result = c.run(table, chunks, q, out, workers);
  EXPECT_TRUE(close(result.values(), oracle, tolerance_of(table).attention, out));
}

void expect_attention_key_counts(const CpuKernels& table, AttentionOptions o) {
  o.lengths = {1, 63, 64, 65, 127, 128, 129, 300, 17, 16, 2, 1000};
  const AttentionCase c(o, 90);
  int turn = 0;
  for (const int64_t rows : {1, 2, 8, 17}) {
    if (kSanitized && rows != 2 && rows != 17) continue;
    const DType q = turn % 2 == 0 ? DType::kBf16 : DType::kF32;
    const DType out = turn / 2 % 2 == 0 ? DType::kF32 : DType::kBf16;
    ++turn;
    std::vector<Chunk> chunks;
    for (int request = 0; request < static_cast<int>(o.lengths.size()); ++request) {
      const Chunk chunk = tail(o, request, rows);
      expect_attention_right(table, c, {chunk}, q, out);
      chunks.push_back(chunk);
    }
    // All in one call, with a request that has nothing to ask.
    chunks.insert(chunks.begin() + 3, {.request = 1, .first = 5, .count = 0, .key_count = 5});
    std::reverse(chunks.begin(), chunks.end());
    expect_attention_right(table, c, chunks, q, out, 3);
  }
  // Rows in the middle: later positions are stored, and unseen where causal.
  expect_attention_right(table, c, {{.request = 7, .first = 100, .count = 30, .key_count = 300}}, DType::kF32,
                         DType::kF32);
  EXPECT_EQ(c.run(table, {}, DType::kF32, DType::kF32).rows(), 0);
}

// Scores far from 0: the softmax must subtract its maximum, wherever that stands. Queries and keys are small integers
// in one number, so that all scores are exact.
void expect_attention_extreme_scores(const CpuKernels& table, AttentionOptions o) {
  o.lengths = {130};
  for (const float scale : {0.5F, 4.0F}) {
    o.scale = scale;
    for (const int shape : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("scale {}, shape {}", scale, shape));
      AttentionCase c(o, 91);
      Random random(92);
      for (int64_t p = 0; p < 130; ++p) {
        for (int64_t i = 0; i < o.heads * o.key_dim; ++i)
          c.queries[0].put(p, i, i % o.key_dim == o.key_dim - 1 ? 16 : 0);
        float key = 0;
        if (shape == 0) key = static_cast<float>(p / 10 - 8);  // rising
        if (shape == 1) key = static_cast<float>(8 - p / 10);  // falling
        if (shape == 2) key = -15;                             // all alike, far below 0
        if (shape == 3) key = p == 70 ? 15.0F : -15.0F;        // one stands out
        for (int64_t g = 0; g < o.kv_heads; ++g) c.keys[0].put(p, (g + 1) * o.key_dim - 1, key);
      }
      expect_attention_right(table, c, {tail(o, 0, 9)}, DType::kF32, DType::kF32);
      expect_attention_right(table, c, {{.request = 0, .first = 60, .count = 20, .key_count = 130}}, DType::kBf16,
                             DType::kBf16);
    }
  }
}

void expect_attention_invariant(const CpuKernels& table, const AttentionOptions& o) {
  SCOPED_TRACE(describe(o));
  const int requests = static_cast<int>(o.lengths.size());
  constexpr int kPoisonedRequest = 1;
  AttentionCase c(o, 95);
  const float nan = std::nanf("");
  for (int64_t p = 0; p < c.keys[kPoisonedRequest].rows(); ++p) {
    c.queries[kPoisonedRequest].fill_row(p, nan);
    c.keys[kPoisonedRequest].fill_row(p, nan);
    if (!o.mla) c.values[kPoisonedRequest].fill_row(p, nan);
  }
  const int poisoned_row_request = requests - 1;  // the query of its last row but one
  const int64_t poisoned_row = o.lengths.back() - 2;
  if (poisoned_row >= 0) c.queries[static_cast<size_t>(poisoned_row_request)].fill_row(poisoned_row, nan);

  std::map<std::pair<int, int64_t>, std::string> alone;
  const auto row_alone = [&](int request, int64_t position) -> const std::string& {
    std::string& bytes = alone[{request, position}];
    if (bytes.empty()) {
      const int64_t keys = o.causal ? position + 1 : o.lengths[static_cast<size_t>(request)];
      const Chunk chunk{.request = request, .first = position, .count = 1, .key_count = keys};
      bytes = c.run(table, {chunk}, DType::kBf16, table.activation, 1, 1).row_bytes(0);
    }
    return bytes;
  };

  Random random(96);
  const auto expect_same = [&](const char* what, std::vector<Chunk> chunks, int workers) {
    for (int order = 0; order < (chunks.size() > 1 ? 2 : 1); ++order) {
      if (order == 1) {
        const std::vector<Chunk> copy = chunks;
        const auto permutation = random.permutation(static_cast<int64_t>(chunks.size()));
        for (size_t i = 0; i < chunks.size(); ++i) chunks[i] = copy[static_cast<size_t>(permutation[i])];
      }
      const auto page_seed = static_cast<uint64_t>(2 + order);
      const Matrix out = c.run(table, chunks, DType::kBf16, table.activation, workers, page_seed);
      int64_t row = 0;
      for (const Chunk& chunk : chunks) {
        for (int64_t p = chunk.first; p < chunk.first + chunk.count; ++p, ++row) {
          if (chunk.request == kPoisonedRequest) continue;
          if (chunk.request == poisoned_row_request && p == poisoned_row) continue;
          ASSERT_TRUE(out.row_bytes(row) == row_alone(chunk.request, p))
              << what << ", " << workers << " workers: position " << p << " of request " << chunk.request
              << " of length " << o.lengths[static_cast<size_t>(chunk.request)] << " differs from the row alone";
        }
      }
    }
  };

  for (const int workers : {1, 2, 3}) {
    if (kSanitized && workers != 3) continue;
    for (const int64_t rows : {1, 2, 3, 8, 17, 64}) {
      if (kSanitized && rows != 3 && rows != 64) continue;
      std::vector<Chunk> chunks;
      for (int r = 0; r < requests; ++r) {
        expect_same("one request", {tail(o, r, rows)}, workers);
        chunks.push_back(tail(o, r, rows));
      }
      expect_same("all requests", chunks, workers);
      if (::testing::Test::HasFailure()) return;
    }
    // Prefill of one beside decoding and verifying others; positions behind a chunk are stored already.
    std::vector<Chunk> mixed;
    for (int r = 0; r < requests; ++r) {
      const int64_t length = o.lengths[static_cast<size_t>(r)];
      const int64_t count = std::min<int64_t>(length, r % 3 == 0 ? 8 : r % 3 == 1 ? 1 : 100);
      mixed.push_back({.request = r, .first = (length - count) / 2, .count = count, .key_count = length});
    }
    expect_same("mixed", mixed, workers);
    // Two halves of one request as two entries of a call.
    const Chunk all = tail(o, requests - 1, 40);
    Chunk first = all;
    first.count = all.count / 2;
    if (o.causal) first.key_count = first.first + first.count;
    Chunk second = all;
    second.first += first.count;
    second.count -= first.count;
    expect_same("halves", {first, second}, workers);
  }
}

}  // namespace strobe::kernel
