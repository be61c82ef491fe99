// Converts the device table's status codes to Errors.
#pragma once

#include <string>
#include <string_view>

#include "base/device_api.h"
#include "base/result.h"

namespace foretrain {

// Success for FT_OK; else an Error "what: text" with kUnsupported, kResourceExhausted, or kIo if
// the device failed.
inline Result<void> Checked(FtStatus status, std::string_view what, const char* text) {
  if (status == FT_OK) return {};
  const ErrorCode code = status == FT_UNSUPPORTED     ? ErrorCode::kUnsupported
                         : status == FT_OUT_OF_MEMORY ? ErrorCode::kResourceExhausted
                                                      : ErrorCode::kIo;
  std::string message(what);
  message += ": ";
  message += text != nullptr && *text != '\0' ? text : "the device gave no reason";
  return Fail(code, std::move(message));
}

}  // namespace foretrain
