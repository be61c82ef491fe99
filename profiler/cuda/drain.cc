// Reads the buffers that CUPTI has filled, for CudaCapture.
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "profiler/cuda/cuda_capture.h"

namespace foretrain {

// A demangled copy of a kernel's name, made once: the library's text may disappear with a module.
const char* CudaCapture::Kept(const char* name) {
  if (name == nullptr) return nullptr;
  const auto found = known_names_.find(name);
  if (found != known_names_.end()) return found->second;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  const char* const kept = names_.insert(plain != nullptr ? plain.get() : name).first->c_str();
  known_names_[name] = kept;
  return kept;
}

// Tags are translated from labels to ops; a label that was never given out is ignored.
bool CudaCapture::AddRecord(const CUpti_Activity& record, FtActivity& out) {
  ExternalId external;
  switch (ParseRecord(record, out, external)) {
    case ParsedRecord::kNothing:
      return false;
    case ParsedRecord::kTag: {
      LabelTable::Label label;
      if (!labels_.Find(external.label, label)) return false;
      out.op_id = label.op_id;
      out.rank = label.rank;
      out.step = external.step;
      return true;
    }
    case ParsedRecord::kActivity:
      out.name = Kept(out.name);
      return true;
  }
  return false;
}

// The buffer that was read goes back to CUPTI's pool first.
bool CudaCapture::NextBuffer() {
  if (buffer_.memory != nullptr) buffers_.Return(buffer_.memory);
  buffer_ = {};
  record_ = nullptr;
  return buffers_.Next(buffer_);
}

// Asks CUPTI for the buffers that it is filling, and for the number of records that it had to drop
// since the last call.
bool CudaCapture::Flush(bool idle, std::int64_t* dropped, char* why, std::size_t n) {
  // A forced flush also delivers records that have not ended, and those never come again. It is
  // used only if nothing runs.
  const std::uint32_t how = idle ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0;
  if (!Check(cupti_.ActivityFlushAll(how), "flush", why, n)) return false;
  std::size_t lost = 0;
  if (!Check(cupti_.ActivityGetNumDroppedRecords(nullptr, 0, &lost), "count lost records", why,
             n)) {
    return false;
  }
  *dropped = static_cast<std::int64_t>(lost);
  return true;
}

// New tags go first, so that kernels find them. A buffer may be read over
// several calls: buffer_ and record_ keep the position.
FtStatus CudaCapture::Drain(bool idle, FtActivity* out, std::int64_t capacity, std::int64_t* count,
                            std::int64_t* dropped, char* why, std::size_t n) noexcept {
  *count = *dropped = 0;
  if (!is_open_) return FT_OK;
  try {
    if (idle || (buffer_.memory == nullptr && !NextBuffer())) {
      if (!Flush(idle, dropped, why, n)) return FT_FAILED;
    }
    {
      const std::lock_guard<std::mutex> lock(tags_mutex_);
      for (; *count < capacity && !new_tags_.empty(); new_tags_.pop_back()) {
        out[(*count)++] = new_tags_.back();
      }
    }
    while (*count < capacity) {
      if (buffer_.memory == nullptr && !NextBuffer()) break;
      const CUptiResult result =
          cupti_.ActivityGetNextRecord(buffer_.memory, buffer_.bytes, &record_);
      if (result == CUPTI_SUCCESS) {
        *count += AddRecord(*record_, out[*count]) ? 1 : 0;
      } else if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) {
        buffers_.Return(buffer_.memory);  // fully read
        buffer_ = {};
        record_ = nullptr;
      } else {
        Check(result, "read a record", why, n);
        return FT_FAILED;
      }
    }
    return FT_OK;
  } catch (...) {
    std::snprintf(why, n, "CUPTI: out of host memory");
    return FT_OUT_OF_MEMORY;
  }
}

}  // namespace foretrain
