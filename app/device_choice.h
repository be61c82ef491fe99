// The flag --device: which device a command computes on.
#pragma once

#include <string>

#include "app/arguments.h"
#include "base/device_api.h"
#include "base/result.h"

namespace foretrain {

class DeviceFlag {
 public:
  void Declare(Arguments& arguments);

  // The table of the device that was asked for. Errors: kInvalidArgument for another name,
  // kUnsupported where CUDA is asked for and not usable, with why.
  Result<const FtDeviceApi*> Choose() const;
  bool IsCuda() const { return name_ == "cuda"; }

 private:
  std::string name_ = "cpu";
};

}  // namespace foretrain
