/* The page's files as read-only data; CMake sets their directory (-I). */
    .macro file name
    .globl mt_report_\name
    .globl mt_report_\name\()_end
mt_report_\name:
    .endm
    .macro end name
mt_report_\name\()_end:
    .byte 0
    .endm

    .section .rodata
    file html
    .incbin "page.html"
    end html
    file css
    .incbin "style.css"
    end css
    file js
    .incbin "data.js"
    .incbin "text.js"
    .incbin "figure.js"
    .incbin "table.js"
    .incbin "overview.js"
    .incbin "timeline.js"
    .incbin "matrix.js"
    .incbin "devices.js"
    .incbin "volumes.js"
    .incbin "buffers.js"
    .incbin "graph.js"
    .incbin "lines.js"
    .incbin "plots.js"
    .incbin "shared.js"
    .incbin "glance.js"
    .incbin "search.js"
    .incbin "address.js"
    .incbin "main.js"
    end js
    file d3
    .incbin "d3.min.js"
    end d3
    file versus_css
    .incbin "versus.css"
    end versus_css
    file licence
    .incbin "d3-licence.txt"
    end licence
    .section .note.GNU-stack,"",@progbits
