#include "traces/store/rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/io/crc32c.h"

namespace foretrain::store_internal {
namespace {

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian rows");

bool InTime(std::int64_t time_ns) { return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs; }

bool InBytes(std::int64_t bytes) { return bytes >= 0 && bytes <= kMaxBytes; }

// The order of spans in a batch; ready time, bytes and class do not matter for it. It begins like
// the table's primary key, with track and start, so that rows are inserted in order.
auto SortKey(const Span& span) {
  return std::tuple(span.queue, span.start_ns, span.end_ns, span.step, span.op);
}

}  // namespace
// The ranges keep sums of times and bytes inside int64_t.

bool IsStorable(const Span& span) {
  return span.start_ns <= span.end_ns && InTime(span.start_ns) && InTime(span.end_ns) &&
         InTime(span.ready_ns) && InBytes(span.bytes) &&
         static_cast<int>(span.queue) < kQueueCount &&
         static_cast<int>(span.op_class) < kOpClassCount &&
         (span.op == kNoOp || IsValidId(span.op));
}

bool IsStorable(const MemorySample& sample) {
  return InTime(sample.time_ns) && InBytes(sample.bytes) &&
         static_cast<int>(sample.category) < kCategoryCount &&
         static_cast<int>(sample.space) < kSpaceCount;
}

bool IsStorable(const StepWindow& window) {
  return window.start_ns <= window.end_ns && InTime(window.start_ns) && InTime(window.end_ns);
}

// Recorders mostly deliver sorted spans, so the check saves the sort.
void SortForStore(std::vector<Span>& spans) {
  const auto before = [](const Span& a, const Span& b) { return SortKey(a) < SortKey(b); };
  if (!std::is_sorted(spans.begin(), spans.end(), before)) {
    std::sort(spans.begin(), spans.end(), before);
  }
}

// Spans have no padding, so their bytes are their values.
std::uint32_t ChecksumOf(std::span<const Span> rows, std::uint32_t so_far) {
  return Crc32c(std::as_bytes(rows), so_far);
}

std::uint32_t ChecksumOf(const MemorySample& row, std::uint32_t so_far) {
  // The four fields without the padding after them.
  std::array<std::byte, 20> bytes{};
  std::memcpy(bytes.data(), &row.time_ns, 8);
  std::memcpy(bytes.data() + 8, &row.bytes, 8);
  std::memcpy(bytes.data() + 16, &row.rank, 2);
  std::memcpy(bytes.data() + 18, &row.category, 1);
  std::memcpy(bytes.data() + 19, &row.space, 1);
  return Crc32c(bytes, so_far);
}

std::uint32_t AddToSum(std::uint32_t sum, std::int64_t value) {
  return Crc32c(std::as_bytes(std::span(&value, 1)), sum);
}

std::uint32_t AddToSum(std::uint32_t sum, double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  if (value == 0.0) value = 0.0;  // of -0 too
  return Crc32c(std::as_bytes(std::span(&value, 1)), sum);
}

std::uint32_t AddToSum(std::uint32_t sum, std::string_view text) {
  return Crc32c(text, AddToSum(sum, static_cast<std::int64_t>(text.size())));
}

// The bounds let a reader skip batches that cannot contain what it wants.
BatchRow Summarise(std::span<const Span> spans, std::span<const MemorySample> samples) {
  BatchRow batch{.spans = static_cast<std::int64_t>(spans.size()),
                 .samples = static_cast<std::int64_t>(samples.size()),
                 .span_crc = ChecksumOf(spans)};
  for (const MemorySample& sample : samples) {
    batch.sample_crc = ChecksumOf(sample, batch.sample_crc);
  }
  if (spans.empty()) return batch;
  const Span& first = spans.front();
  batch.first_start_ns = batch.last_start_ns = first.start_ns;
  batch.last_end_ns = first.end_ns;
  batch.first_step = batch.last_step = first.step;
  for (const Span& span : spans) {
    batch.first_start_ns = std::min(batch.first_start_ns, span.start_ns);
    batch.last_start_ns = std::max(batch.last_start_ns, span.start_ns);
    batch.last_end_ns = std::max(batch.last_end_ns, span.end_ns);
    batch.first_step = std::min(batch.first_step, span.step);
    batch.last_step = std::max(batch.last_step, span.step);
  }
  return batch;
}

}  // namespace foretrain::store_internal
