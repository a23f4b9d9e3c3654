#include "load/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <numeric>

#include "base/failure.h"
#include "load/mapped_file.h"
#include "load/safetensors_writer.h"

namespace strobe {
namespace {

using strobe::testing::SafetensorsWriter;
using strobe::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::vector<StoredTensor>> parse(const std::string& file) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file.data(), file.size())), "f.safetensors");
}

std::string refusal(const std::string& file) {
  const auto result = parse(file);
  return result.ok() ? "it was accepted" : result.message();
}

// A file of one tensor whose header entry is the given text, with that many bytes of data.
std::string one_entry(const std::string& entry, size_t data_bytes) {
  return SafetensorsWriter::frame("{\"w\": " + entry + "}", std::string(data_bytes, '\0'));
}

SafetensorsWriter small_file() {
  SafetensorsWriter writer;
  writer.add("a", FileDType::kBf16, {2, 3}, std::vector<uint16_t>{1, 2, 3, 4, 5, 6});
  writer.scalar("s", 0.5F);
  writer.add("none", FileDType::kF32, {0, 7});
  writer.add("b", FileDType::kU8, {4});
  return writer;
}

TEST(Safetensors, ReadsARightFile) {
  SafetensorsWriter writer = small_file();
  writer.header()["__metadata__"] = {{"format", "pt"}};
  const std::string file = writer.bytes();
  const auto tensors = parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.message();
  ASSERT_EQ(tensors->size(), 4U);
  const StoredTensor& a = (*tensors)[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, FileDType::kBf16);
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(a.bytes, 12);
  EXPECT_EQ(static_cast<int>(a.data[2]), 2);
  EXPECT_EQ(describe(a), "BF16 [2, 3]");
  const auto scalar = std::find_if(tensors->begin(), tensors->end(), [](const auto& t) { return t.name == "s"; });
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(describe(*scalar), "F32 []");
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(parse(SafetensorsWriter::frame("{}", "")).ok());
  EXPECT_TRUE(parse(SafetensorsWriter::frame("{\"__metadata__\": {}}   ", "")).ok());
  EXPECT_TRUE(parse(one_entry(R"({"dtype": "F32", "shape": [], "data_offsets": [0, 4]})", 4)).ok());
  EXPECT_TRUE(parse(one_entry(R"({"data_offsets": [0, 0], "shape": [0], "dtype": "F8_E8M0"})", 0)).ok());
  // A writer that aligns to 64 bytes leaves up to 63 between tensors; the header need not be padded.
  SafetensorsWriter holes;
  holes.add("a", FileDType::kU8, {1});
  holes.data().resize(64);
  holes.add("b", FileDType::kU8, {3});
  EXPECT_TRUE(parse(holes.bytes(1)).ok());
}

TEST(Safetensors, EveryDtypeHasItsSize) {
  for (const auto& [dtype, bytes] : std::vector<std::pair<FileDType, int64_t>>{{FileDType::kF64, 8},
                                                                               {FileDType::kF32, 4},
                                                                               {FileDType::kF16, 2},
                                                                               {FileDType::kBf16, 2},
                                                                               {FileDType::kE4m3, 1},
                                                                               {FileDType::kE5m2, 1},
                                                                               {FileDType::kE8m0, 1},
                                                                               {FileDType::kI64, 8},
                                                                               {FileDType::kI32, 4},
                                                                               {FileDType::kI16, 2},
                                                                               {FileDType::kI8, 1},
                                                                               {FileDType::kU64, 8},
                                                                               {FileDType::kU32, 4},
                                                                               {FileDType::kU16, 2},
                                                                               {FileDType::kU8, 1},
                                                                               {FileDType::kBool, 1}}) {
    SafetensorsWriter writer;
    writer.add("t", dtype, {3});
    const std::string file = writer.bytes();
    const auto tensors = parse(file);
    ASSERT_TRUE(tensors.ok()) << tensors.message();
    EXPECT_EQ(tensors->front().dtype, dtype);
    EXPECT_EQ(tensors->front().bytes, 3 * bytes);
    if (const auto compute = compute_dtype(dtype)) {
      EXPECT_EQ(file_dtype(*compute), dtype);
    }
  }
}

struct BadFile {
  const char* what;
  std::string file;
  std::string message;
};

std::vector<BadFile> bad_headers() {
  std::string huge = SafetensorsWriter::frame("{}", "");
  huge[7] = '\x7f';
  std::string longer = SafetensorsWriter::frame("{}", "");
  longer[0] = 3;
  std::string wide = small_file().bytes();
  wide[3] = 0x06;  // about 100 million
  return {
      {"empty", "", "0 bytes are too few"},
      {"seven bytes", "1234567", "7 bytes are too few"},
      {"huge length", huge, "the header claims 9151314442816847874 bytes; accepted: at most 100000000"},
      {"length past the limit", wide, "accepted: at most 100000000"},
      {"one byte too long", longer, "the header claims 3 bytes, the file has 2 after the length; is it cut short?"},
      {"no header", SafetensorsWriter::frame("", ""), "does not begin with '{'"},
      {"array", SafetensorsWriter::frame("[]", ""), "does not begin with '{'"},
      {"leading space", SafetensorsWriter::frame(" {}", ""), "does not begin with '{'"},
      {"cut JSON", SafetensorsWriter::frame("{\"a\"", ""), "the header is not a JSON object"},
      {"two values", SafetensorsWriter::frame("{}{}", ""), "the header is not a JSON object"},
      {"invalid UTF-8", SafetensorsWriter::frame("{\"\xff\": 1}", ""), "the header is not a JSON object"},
      {"deep", SafetensorsWriter::frame("{\"a\": " + std::string(100000, '['), ""), "the header is not a JSON object"},
  };
}

std::vector<BadFile> bad_entries() {
  const std::string ok = R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])";
  return {
      {"not an object", one_entry("3", 0), "its entry is not an object"},
      {"no dtype", one_entry(R"({"shape": [2], "data_offsets": [0, 8]})", 8),
       "must hold dtype, shape and data_offsets"},
      {"no shape", one_entry(R"({"dtype": "F32", "data_offsets": [0, 8]})", 8),
       "must hold dtype, shape and data_offsets"},
      {"no offsets", one_entry(R"({"dtype": "F32", "shape": [2]})", 8), "must hold dtype, shape and data_offsets"},
      {"dtype twice", one_entry("{" + ok + R"(, "dtype": "F32"})", 8), "once each"},
      {"foreign key", one_entry("{" + ok + R"(, "strides": [1]})", 8), "its entry holds 'strides'"},
      {"unknown dtype", one_entry(R"({"dtype": "F4", "shape": [2], "data_offsets": [0, 8]})", 8),
       "unknown dtype 'F4'; accepted: F64, F32"},
      {"numeric dtype", one_entry(R"({"dtype": 3, "shape": [2], "data_offsets": [0, 8]})", 8), "dtype is not a string"},
      {"negative dim", one_entry(R"({"dtype": "F32", "shape": [1, -2], "data_offsets": [0, 8]})", 8),
       "shape[1] is not a non-negative"},
      {"fraction", one_entry(R"({"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]})", 8), "shape[0] is not"},
      {"dim above 2^63", one_entry(R"({"dtype": "F32", "shape": [18446744073709551615], "data_offsets": [0, 8]})", 8),
       "shape[0]"},
      {"nine dims", one_entry(R"({"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 1]})", 1),
       "more than 8 dimensions"},
      {"shape no array", one_entry(R"({"dtype": "F32", "shape": 2, "data_offsets": [0, 8]})", 8),
       "shape is not an array"},
      {"overflow", one_entry(R"({"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]})", 0),
       "overflows"},
      {"overflow by dtype", one_entry(R"({"dtype": "F64", "shape": [2305843009213693952], "data_offsets": [0, 0]})", 0),
       "overflows"},
      {"overflow beside zero",
       one_entry(R"({"dtype": "U8", "shape": [0, 4611686018427387904, 4], "data_offsets": [0, 0]})", 0), "overflows"},
      {"offsets of one", one_entry(R"({"dtype": "F32", "shape": [2], "data_offsets": [8]})", 8), "not [begin, end]"},
      {"offsets of three", one_entry(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]})", 8),
       "not [begin, end]"},
      {"negative offset", one_entry(R"({"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]})", 8),
       "not [begin, end]"},
      {"backwards", one_entry(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})", 8), "[8, 0] run backwards"},
      {"past the end", one_entry("{" + ok + "}", 7), "[0, 8] lie outside the 7 bytes of data; is the file cut short?"},
      {"size too small", one_entry(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})", 8),
       "F32 [2] needs 8 bytes, but data_offsets [0, 4] hold 4"},
      {"size too big", one_entry(R"({"dtype": "BF16", "shape": [2], "data_offsets": [0, 8]})", 8),
       "BF16 [2] needs 4 bytes"},
      {"long tail", one_entry("{" + ok + "}", 8 + 64), "64 bytes after the last tensor belong to none"},
  };
}

TEST(Safetensors, RefusesBadHeaders) {
  for (const BadFile& bad : bad_headers()) {
    EXPECT_THAT(refusal(bad.file), AllOf(StartsWith("f.safetensors: "), HasSubstr(bad.message))) << bad.what;
  }
}

TEST(Safetensors, RefusesBadEntriesNamingTheTensor) {
  for (const BadFile& bad : bad_entries()) {
    EXPECT_THAT(refusal(bad.file), AllOf(StartsWith("f.safetensors: "), HasSubstr(bad.message))) << bad.what;
    if (std::string(bad.what) != "long tail") {
      EXPECT_THAT(refusal(bad.file), HasSubstr("tensor 'w': ")) << bad.what;
    }
  }
}

TEST(Safetensors, RefusesOverlapsHolesAndTwins) {
  SafetensorsWriter overlap = small_file();
  overlap.entry("b")["data_offsets"] = {11, 15};
  EXPECT_THAT(refusal(overlap.bytes()),
              HasSubstr("tensor 'b': its bytes [11, 15) overlap those of 'a', which end at 12"));

  SafetensorsWriter hole;
  hole.data().resize(64);
  hole.add("late", FileDType::kU8, {1});
  EXPECT_THAT(refusal(hole.bytes()), HasSubstr("tensor 'late': 64 bytes before it, from 0 on, belong to no tensor"));

  const std::string entry = R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
  EXPECT_THAT(refusal(SafetensorsWriter::frame("{\"w\": " + entry + ", \"w\": " + entry + "}", "x")),
              HasSubstr("tensor 'w': the name occurs twice"));
}

TEST(Safetensors, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(printable("a.b"), "a.b");
  EXPECT_EQ(printable(std::string("a\n\x7f\0b", 5)), "a\\x0a\\x7f\\x00b");
  EXPECT_LT(printable(std::string(1000000, 'n')).size(), 200U);
}

// Adds up everything a parse result points to, so that a sanitizer sees each byte read.
int64_t touch(const std::vector<StoredTensor>& tensors) {
  int64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<int64_t>(tensor.data[i]);
  }
  return sum;
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = small_file().bytes();
  ASSERT_TRUE(parse(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this size, so that reading behind it is seen.
    const std::vector<std::byte> cut(reinterpret_cast<const std::byte*>(whole.data()),
                                     reinterpret_cast<const std::byte*>(whole.data()) + length);
    EXPECT_FALSE(SafetensorsFile::parse(cut, "cut").ok()) << length;
  }
}

TEST(Safetensors, EveryBitFlipIsReadOrRefused) {
  const std::string whole = small_file().bytes();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    if (const auto tensors = parse(flipped); tensors.ok()) touch(*tensors);
  }
}

TEST(MappedFile, MapsAndRefuses) {
  const TempFolder folder;
  SafetensorsWriter::write_text(folder / "f", "hello");
  SafetensorsWriter::write_text(folder / "empty", "");
  const MappedFile file = MappedFile::open(folder / "f");
  EXPECT_EQ(file.text(), "hello");
  EXPECT_EQ(MappedFile::open(folder / "empty").size_bytes(), 0);
  MappedFile moved = MappedFile::open(folder / "f");
  moved = MappedFile::open(folder / "empty");
  EXPECT_EQ(moved.text(), "");

  const auto failure = [&](const std::filesystem::path& path) -> std::string {
    try {
      static_cast<void>(MappedFile::open(path));
    } catch (const Failure& caught) {
      return caught.what();
    }
    return "it was opened";
  };
  EXPECT_THAT(failure(folder / "none"), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(failure(folder.path()), HasSubstr("is not a regular file"));
  EXPECT_TRUE(path_exists(folder / "f"));
  EXPECT_FALSE(path_exists(folder / "none"));
  EXPECT_THROW(static_cast<void>(path_exists(std::string(5000, 'x'))), Failure);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(failure(folder / "pipe"), HasSubstr("is not a regular file")) << "and it must not wait for a writer";
}

}  // namespace
}  // namespace strobe
