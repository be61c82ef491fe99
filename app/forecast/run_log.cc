#include "app/forecast/run_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/io/file_system.h"

namespace foretrain {

Result<TrainerLog> ReadRunLog(const std::string& option, const std::string& path,
                              const Launch& launch) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxLogBytes));
  FT_ASSIGN(TrainerLog log, ReadTrainerLog(text, path));
  const bool is_its_own =
      std::find(log.dialects.begin(), log.dialects.end(), launch.dialect) != log.dialects.end();
  if (is_its_own) return log;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} {}: is a log of {}, and {} starts {}; give the log of that run",
                          option, path, log.title, launch.file, launch.title));
}

}  // namespace foretrain
