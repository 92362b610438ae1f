# cmake -P uninstall.cmake, in the build folder: removes the files of the last `cmake --install` (install_manifest.txt) and its
# CUDA overlay. Folders stay.
file(STRINGS "${CMAKE_CURRENT_BINARY_DIR}/install_manifest.txt" files)
foreach(file IN LISTS files)
  if(file MATCHES "/libexec/memtrace/|/memtrace/memtrace\\.cfg$")
    get_filename_component(folder "${file}" DIRECTORY)
    if(IS_DIRECTORY "$ENV{DESTDIR}${folder}/cuda-overlay")
      file(REMOVE_RECURSE "$ENV{DESTDIR}${folder}/cuda-overlay")
    endif()
  endif()
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()
