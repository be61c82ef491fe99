// Saves what the window shows as a picture in the working folder.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"
#include "ui/render/gl_images.h"
#include "ui/view/desktop/desktop_state.h"
#include "ui/view/desktop/window_content.h"

namespace foretrain::ui {

// The first of foretrain-VIEW.png, foretrain-VIEW-2.png and so on that `folder` does not have.
// `ending` is png or svg. Errors: kResourceExhausted, all names up to 9999 are taken; those of
// FileSystem::Stat.
Result<std::string> NewPictureName(FileSystem& files, const std::string& folder,
                                   std::string_view view, std::string_view ending);

// Saves the frame that was drawn last, whose record is `record`, and returns the file's name. Needs
// the window's OpenGL context. Errors: those of NewPictureName; kIo.
Result<std::string> SavePicture(PictureForm form, std::string_view view, const ViewSize& size,
                                const FrameRecord& record, Colour ground, const GlImages& images);

}  // namespace foretrain::ui
