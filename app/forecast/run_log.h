// The log of another trainer's run, from a file.
#pragma once

#include <string>

#include "base/result.h"
#include "sim/check/logs/trainer_log.h"
#include "sim/config/launch/read_launch.h"

namespace foretrain {

// Reads the log of a run that `launch` started.
//
//   option  names the log in messages, e.g. "--log"
//
// Errors: those of ReadTrainerLog and of reading files; kInvalidArgument for another trainer's log.
Result<TrainerLog> ReadRunLog(const std::string& option, const std::string& path,
                              const Launch& launch);

}  // namespace foretrain
