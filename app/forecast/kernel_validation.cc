#include "app/forecast/kernel_validation.h"

#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/output_file.h"
#include "app/report/kernel_report.h"
#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/measured/kernel_profile_json.h"
#include "sim/cost/profile/architecture.h"
#include "sim/validate/kernels/fit_kernels.h"
#include "sim/validate/kernels/timing_table.h"
#include "traces/import/byte_source.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTableBytes = 64 * kMiB;
constexpr std::size_t kChunk = 1 << 16;

using Predictions = std::vector<std::vector<KernelPrediction>>;

// The whole text of a file, unpacked if it is packed.
Result<std::string> ReadUnpacked(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const std::unique_ptr<trace_import::ByteSource> source,
            trace_import::OpenBytes(files, path, {.max_bytes = kMaxTableBytes}));
  std::string text;
  std::string chunk(kChunk, '\0');
  for (;;) {
    FT_ASSIGN(const std::int64_t bytes, source->Read(std::span(chunk.data(), chunk.size())));
    if (bytes == 0) return text;
    text.append(chunk, 0, static_cast<std::size_t>(bytes));
    if (static_cast<std::int64_t>(text.size()) > kMaxTableBytes) {
      return Fail(ErrorCode::kResourceExhausted, path + ": is larger than 64 MiB; split the table");
    }
  }
}

Result<std::vector<TimingTable>> ReadTables(const std::string& paths) {
  PosixFileSystem files;
  std::vector<TimingTable> out;
  for (const std::string_view part : Split(paths, ',')) {
    const std::string path(Trim(part));
    FT_ASSIGN(const std::string text, ReadUnpacked(files, path));
    FT_ASSIGN(TimingTable table, ParseTimingTable(text, path));
    out.push_back(std::move(table));
  }
  return out;
}

std::string FileName(std::string_view path) {
  const std::size_t at = path.rfind('/');
  return std::string(at == path.npos ? path : path.substr(at + 1));
}

// Table names without folders, which differ from machine to machine.
std::string MadeBy(const std::string& paths) {
  std::vector<std::string> names;
  for (const std::string_view path : Split(paths, ',')) names.push_back(FileName(Trim(path)));
  return "foretrain validate --kernels " + Join(names, ",") + " --learn all --profile FOLDER";
}

Result<void> WriteProfiles(const KernelValidation& request,
                           std::span<const KernelProfile> profiles) {
  PosixFileSystem files;
  for (const KernelProfile& profile : profiles) {
    const std::string path = request.profile + "/" + ToLower(profile.device) + ".json";
    FT_TRY(WriteFileAtomically(files, path, KernelProfileToJson(profile, MadeBy(request.files))));
  }
  return {};
}

Result<void> CheckRequest(const KernelValidation& request) {
  if (!request.learn.empty() && request.learn != "all") {
    return Fail(ErrorCode::kInvalidArgument,
                "--learn " + Printable(request.learn) +
                    ": give all with --kernels; rows are left out one by one to judge the fit");
  }
  if (!request.profile.empty() && request.learn.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--profile " + Printable(request.profile) +
                                                 ": there is no fit to write; add --learn all");
  }
  if (!request.out.empty() && request.files.find(',') != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                "--out " + Printable(request.out) + ": --kernels names several tables; give one");
  }
  return CheckOutputFile("--out", request.out);
}

}  // namespace

Result<Exit> ValidateKernels(const KernelValidation& request) {
  FT_TRY(CheckRequest(request));
  FT_ASSIGN(const std::vector<TimingTable> tables, ReadTables(request.files));
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const std::vector<Architecture> architectures, BuiltInArchitectures());
  FT_ASSIGN(std::vector<KernelProfile> profiles, BuiltInKernelProfiles());
  if (!request.learn.empty()) {
    FT_ASSIGN(profiles, FitKernels(tables, catalogue, architectures));
    std::fputs(KernelFitText(profiles).c_str(), stderr);
    if (!request.profile.empty()) FT_TRY(WriteProfiles(request, profiles));
  }
  Predictions predictions, without_device;
  for (const TimingTable& table : tables) {
    predictions.push_back(PredictKernels(table, profiles, catalogue, architectures, false));
    without_device.push_back(PredictKernels(table, profiles, catalogue, architectures, true));
  }
  if (!request.out.empty()) {
    PosixFileSystem files;
    FT_TRY(WriteFileAtomically(files, request.out,
                               PredictedTable(tables.front(), predictions.front())));
  }
  const KernelReport report = ReportOf(tables, predictions, without_device);
  std::fputs((request.json ? KernelReportJson(report) + "\n" : KernelReportText(report)).c_str(),
             stdout);
  return Exit::kDone;
}

}  // namespace foretrain
