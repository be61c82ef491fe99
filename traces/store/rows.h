// Rows as they are checked, ordered and summed before they are stored and after they are read.
// Leaves out SQL.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::store_internal {

inline constexpr std::int64_t kMostTimeNs = std::int64_t{1} << 60;  // 36 years either way
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;   // as base/units.h reads
inline constexpr int kMostRanks = 1 << 15;                          // Span::rank

// The checksum of spans is that of their bytes, so these must hold nothing but the fields.
static_assert(sizeof(Span) == 48 && std::has_unique_object_representations_v<Span>);

// Whether times, bytes and ids are in range: what metrics may add up without overflow.
bool IsStorable(const Span& span);
bool IsStorable(const MemorySample& sample);
bool IsStorable(const StepWindow& window);

// Sorts spans of one rank as they are stored: by (queue, start), ties by all that is left.
void SortForStore(std::vector<Span>& spans);

// CRC-32C of `rows` in order, after those summed in `so_far`. Little-endian machines alone.
std::uint32_t ChecksumOf(std::span<const Span> rows, std::uint32_t so_far = 0);
std::uint32_t ChecksumOf(const MemorySample& row, std::uint32_t so_far);

// What the table `batch` says of a batch: rows of one rank that were committed together.
struct BatchRow {
  std::int64_t batch = 0;
  std::int64_t rank = 0;
  std::int64_t spans = 0;
  std::int64_t samples = 0;
  std::uint32_t span_crc = 0;
  std::uint32_t sample_crc = 0;
  std::int64_t first_start_ns = 0;  // of its spans; 0 where there are none, as all below
  std::int64_t last_start_ns = 0;
  std::int64_t last_end_ns = 0;
  std::int32_t first_step = 0;
  std::int32_t last_step = 0;
};

// The row for `spans` and `samples`, both in stored order.
BatchRow Summarise(std::span<const Span> spans, std::span<const MemorySample> samples);

}  // namespace foretrain::store_internal
