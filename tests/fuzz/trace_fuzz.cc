// Traces of other programs: if one is read, its ranks, ids and times are in range and its metrics
// add up; otherwise it is refused with a sentence. Read in random pieces it gives the same. Text is
// taken as JSON or gzip, a database and a memory snapshot by their first bytes.
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/in_pieces.h"
#include "traces/import/import.h"
#include "traces/metrics/metrics.h"

namespace {

using namespace foretrain;

// SQLite takes a path: a file that is removed with the process.
class TempFile {
 public:
  TempFile() : path_((std::filesystem::temp_directory_path() / "trace-XXXXXX").string()) {
    file_ = mkstemp(path_.data());
    FT_CHECK(file_ >= 0);
  }
  ~TempFile() {
    close(file_);
    unlink(path_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  void Fill(const std::uint8_t* data, std::size_t size) const {
    FT_CHECK(ftruncate(file_, 0) == 0);
    FT_CHECK(pwrite(file_, data, size, 0) == static_cast<ssize_t>(size));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
};

bool Same(const std::vector<Span>& a, const std::vector<Span>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Span)) == 0);
}

void Check(const Timeline& timeline) {
  for (const Span& span : timeline.spans) {
    FT_CHECK(span.end_ns >= span.start_ns);
    FT_CHECK(span.rank >= 0 && span.rank < timeline.world);
    FT_CHECK(span.op == kNoOp || IsValidId(span.op));
    FT_CHECK(!Describe(span.op).empty());
  }
  const Metrics metrics = ComputeMetrics(timeline);
  for (const RankStep& step : metrics.rank_steps) {
    FT_CHECK(step.classes.Sum() == step.end_ns - step.start_ns);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFile file;
  file.Fill(data, size);
  PosixFileSystem files;
  const ImportOptions options{.step_name = "batch"};
  const auto runs = ReadTraces(files, std::span(&file.path(), 1), options);
  FilesInPieces pieces(files, size);
  const auto again = ReadTraces(pieces, std::span(&file.path(), 1), options);
  FT_CHECK(again.has_value() == runs.has_value());
  if (!runs.has_value()) {
    FT_CHECK(!runs.error().message.empty());
    FT_CHECK(again.error().message == runs.error().message);
    return 0;
  }
  FT_CHECK(again->size() == runs->size());
  for (std::size_t i = 0; i < runs->size(); ++i) {
    const TraceRun& run = (*runs)[i];
    Check(run.timeline);
    FT_CHECK(Same((*again)[i].timeline.spans, run.timeline.spans));
    FT_CHECK((*again)[i].totals == run.totals && (*again)[i].notes == run.notes);
  }
  return 0;
}
