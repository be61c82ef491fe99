#include "sim/cost/kernels/gemm_algorithms.h"

#include <string_view>

#include "base/checked.h"

namespace foretrain {
namespace {

// The words of an algorithm are opaque to us and depend on the library's version. They are stored
// as text, because JSON numbers are not exact at 64 bits.
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kDigitsEach = 16;  // hexadecimal digits per word
constexpr double kLongest = 1e6;         // in seconds

template <class Member>
struct Field {
  std::string_view name;
  Member GemmAlgorithm::*member;
};
constexpr std::array<Field<std::int64_t>, 3> kSizes{{
    {"rows", &GemmAlgorithm::rows},
    {"cols", &GemmAlgorithm::cols},
    {"inner", &GemmAlgorithm::inner},
}};
constexpr std::array<Field<bool>, 6> kFlags{{
    {"accumulate", &GemmAlgorithm::accumulate},
    {"trans_a", &GemmAlgorithm::trans_a},
    {"trans_b", &GemmAlgorithm::trans_b},
    {"has_bias", &GemmAlgorithm::has_bias},
    {"has_aux", &GemmAlgorithm::has_aux},
    {"has_row_sums", &GemmAlgorithm::has_row_sums},
}};
constexpr std::array<Field<NumberFormat>, 5> kFormats{{
    {"format", &GemmAlgorithm::format},
    {"operands", &GemmAlgorithm::operands},
    {"bias", &GemmAlgorithm::bias},
    {"result", &GemmAlgorithm::result},
    {"row_sums", &GemmAlgorithm::row_sums},
}};
constexpr std::array<std::string_view, 3> kEpilogues{"none", "activate", "slope"};

std::string TextOf(const std::array<std::uint64_t, 8>& words) {
  std::string text;
  for (const std::uint64_t word : words) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15U];
  }
  return text;
}

// False if the text is not exactly 16 digits per word.
bool ReadWords(std::string_view text, std::array<std::uint64_t, 8>& words) {
  if (text.size() != words.size() * kDigitsEach) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return false;
    words[i / kDigitsEach] = words[i / kDigitsEach] << 4 | digit;
  }
  return true;
}

std::array<std::string_view, kNumberFormatCount> FormatNames() {
  std::array<std::string_view, kNumberFormatCount> names;
  for (int i = 0; i < kNumberFormatCount; ++i) {
    names[static_cast<std::size_t>(i)] = Name(static_cast<NumberFormat>(i));
  }
  return names;
}

}  // namespace

// The times of the algorithm and of the library's own choice are kept, so that a profile shows the
// gain.
void WriteGemmAlgorithms(const GemmAlgorithms& algorithms, JsonWriter& json) {
  json.Field("library", algorithms.library).Name("of").BeginArray();
  for (const GemmAlgorithm& algorithm : algorithms.of) {
    json.BeginObject();
    for (const auto& [name, member] : kSizes) json.Field(name, algorithm.*member);
    for (const auto& [name, member] : kFlags) {
      if (algorithm.*member) json.Field(name, true);
    }
    if (algorithm.epilogue != GemmEpilogue::kNone) {
      json.Field("epilogue", kEpilogues[static_cast<std::size_t>(algorithm.epilogue)]);
    }
    for (const auto& [name, member] : kFormats) {
      if (algorithm.*member != NumberFormat::kFp32) json.Field(name, Name(algorithm.*member));
    }
    json.Field("seconds", algorithm.seconds).Field("library_seconds", algorithm.library_seconds);
    json.Field("words", TextOf(algorithm.words)).EndObject();
  }
  json.EndArray();
}

// Defaults are left out when writing, so a missing field has its default.
Result<void> ReadGemmAlgorithms(JsonFields fields, GemmAlgorithms& algorithms) {
  static const auto kNames = FormatNames();
  algorithms.library = fields.String("library", 64);
  for (JsonFields& item : fields.ObjectsOr("of")) {
    GemmAlgorithm& algorithm = algorithms.of.emplace_back();
    for (const auto& [name, member] : kSizes) {
      algorithm.*member = item.Integer(name, 1, kMaxProduct);
    }
    for (const auto& [name, member] : kFlags) algorithm.*member = item.BoolOr(name, false);
    algorithm.epilogue = static_cast<GemmEpilogue>(item.ChoiceOr("epilogue", 0, kEpilogues));
    for (const auto& [name, member] : kFormats) {
      algorithm.*member = static_cast<NumberFormat>(item.ChoiceOr(name, 0, kNames));
    }
    algorithm.seconds = item.Number("seconds", 0, kLongest);
    algorithm.library_seconds = item.Number("library_seconds", 0, kLongest);
    if (!ReadWords(item.String("words", 1000), algorithm.words)) {
      item.Refuse("words", "must be 128 hexadecimal digits in lower case; calibrate again");
    }
    FT_TRY(item.Finish());
  }
  return fields.Finish();
}

}  // namespace foretrain
