// Checks, order and checksums of rows, before they are stored and after they are read. SQL is
// elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::store_internal {

inline constexpr std::int64_t kMaxTimeNs = std::int64_t{1} << 60;  // 36 years in either direction
inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;   // the limit of base/units.h
inline constexpr int kMaxStoredRanks = 1 << 15;                    // range of Span::rank

// The checksum of spans covers their bytes, so a Span may contain no padding.
static_assert(sizeof(Span) == 48 && std::has_unique_object_representations_v<Span>);

// True if times, bytes and ids are in range, so that metrics can add them up without overflow.
bool IsStorable(const Span& span);
bool IsStorable(const MemorySample& sample);
bool IsStorable(const StepWindow& window);

// Sorts spans of one rank in stored order: by (queue, start); ties by all other fields.
void SortForStore(std::vector<Span>& spans);

// CRC-32C of `rows` in order, continuing `so_far`. Little-endian machines only.
std::uint32_t ChecksumOf(std::span<const Span> rows, std::uint32_t so_far = 0);
std::uint32_t ChecksumOf(const MemorySample& row, std::uint32_t so_far);

// Continues a CRC-32C with one value: an integer as 8 bytes; a number as the 8 bytes of its double,
// NaN and zero each as one pattern, since SQLite keeps neither the bits of a NaN nor the sign of a
// zero; a text after its length.
std::uint32_t AddToSum(std::uint32_t sum, std::int64_t value);
std::uint32_t AddToSum(std::uint32_t sum, double value);
std::uint32_t AddToSum(std::uint32_t sum, std::string_view text);

// The sum of a row that belongs to no batch, of its values in the order of the table's columns,
// with the name of a series instead of its id.
template <class... Values>
std::uint32_t RowSum(const Values&... values) {
  std::uint32_t sum = 0;
  const auto add = [&sum](const auto& value) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(value)>>) {
      sum = AddToSum(sum, static_cast<std::int64_t>(value));
    } else {
      sum = AddToSum(sum, value);
    }
  };
  (add(values), ...);
  return sum;
}

// A row of table `batch`: rows of one rank that were committed together.
struct BatchRow {
  std::int64_t batch = 0;
  std::int64_t rank = 0;
  std::int64_t spans = 0;
  std::int64_t samples = 0;
  std::uint32_t span_crc = 0;
  std::uint32_t sample_crc = 0;
  std::int64_t first_start_ns = 0;  // of its spans; 0 without spans, as all below
  std::int64_t last_start_ns = 0;
  std::int64_t last_end_ns = 0;
  std::int32_t first_step = 0;
  std::int32_t last_step = 0;
};

// The row for `spans` and `samples`, both in stored order.
BatchRow Summarise(std::span<const Span> spans, std::span<const MemorySample> samples);

}  // namespace foretrain::store_internal
